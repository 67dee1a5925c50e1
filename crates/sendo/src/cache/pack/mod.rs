//! Objects in a tenth of their memory: JSON, compressed with a dictionary that was
//! trained on the first of them, decoded when they are read.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use zstd::bulk::{Compressor, Decompressor};

use super::held::{AnyObject, Held};
use super::reader::Reader;

/// How hard to try. Objects are packed once for every change of theirs, and with
/// a good dictionary more effort saves a tenth at most.
const LEVEL: i32 = 3;

/// The dictionary is trained on so many objects.
const SAMPLES: usize = 256;

/// How large it is: a sixteenth of those objects. Larger, it would learn their
/// names instead of what they have in common.
const SHARE: usize = 16;

/// How large it is at the most. It is kept once for each kind.
const DICTIONARY: usize = 64 * 1024;

/// How many objects are also kept as they are, since they were read or changed
/// a moment ago.
const HOT: usize = 64;

/// A packed object: version, the hash of its uid, size, dictionary or not; then
/// the compressed JSON.
#[derive(Clone)]
pub(super) struct Packed(Arc<[u8]>);

/// The bytes before the compressed ones.
const HEAD: usize = 8 + 8 + 4 + 1;

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.0.len())
    }
}

impl Packed {
    pub(super) fn version(&self) -> u64 {
        self.number(0)
    }

    pub(super) fn is(&self, uid: &str) -> bool {
        self.uid_hash() == hash(uid)
    }

    pub(super) fn is_same_object(&self, other: &Packed) -> bool {
        self.uid_hash() == other.uid_hash()
    }

    /// How many bytes it takes, but for what keeps it.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn uid_hash(&self) -> u64 {
        self.number(8)
    }

    fn size(&self) -> usize {
        let size = self.0[16..20].try_into().map(u32::from_le_bytes);
        size.unwrap_or_default() as usize
    }

    fn has_dictionary(&self) -> bool {
        self.0[20] == 1
    }

    fn body(&self) -> &[u8] {
        &self.0[HEAD..]
    }

    fn number(&self, at: usize) -> u64 {
        let bytes = self.0[at..at + 8].try_into();
        bytes.map(u64::from_le_bytes).unwrap_or_default()
    }
}

/// FNV-1a: 64 bits distinguish the objects of one name.
fn hash(uid: &str) -> u64 {
    uid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Packs the objects of one informer.
pub(super) struct Packer {
    reader: Arc<dyn Reader>,
    state: Mutex<State>,
    /// A place for each of a few objects, found by what they are.
    hot: Mutex<Hot>,
}

type Hot = Vec<Option<(Packed, Arc<dyn AnyObject>)>>;

struct State {
    plain: Tools,
    trained: Option<Tools>,
    samples: Vec<Vec<u8>>,
}

struct Tools {
    compressor: Compressor<'static>,
    decompressor: Decompressor<'static>,
}

impl Tools {
    fn new(dictionary: &[u8]) -> std::io::Result<Self> {
        let mut compressor = Compressor::with_dictionary(LEVEL, dictionary)?;
        // Both are known without being said in every object.
        compressor.include_contentsize(false)?;
        compressor.include_dictid(false)?;
        Ok(Tools {
            compressor,
            decompressor: Decompressor::with_dictionary(dictionary)?,
        })
    }
}

impl Packer {
    /// The packer of the kind, if its objects are to be kept packed.
    pub(super) fn new(reader: &Arc<dyn Reader>) -> Option<Self> {
        if !reader.is_compact() {
            return None;
        }
        let plain = Tools::new(&[]).expect("compression without a dictionary always works");
        Some(Packer {
            reader: reader.clone(),
            state: Mutex::new(State {
                plain,
                trained: None,
                samples: Vec::new(),
            }),
            hot: Mutex::new(vec![None; HOT]),
        })
    }

    /// The object, packed; or as it is, if its type does not read back what it writes.
    pub(super) fn pack(&self, object: Arc<dyn AnyObject>) -> Held {
        match self.packed(&*object) {
            Some(packed) => {
                self.remember(&packed, object);
                Held::Packed(packed)
            }
            None => Held::Whole(object),
        }
    }

    fn packed(&self, object: &dyn AnyObject) -> Option<Packed> {
        let json = object.to_json().ok()?;
        self.reader.read_back(&json)?;
        let mut state = self.lock();
        state.learn(&json);
        let has_dictionary = state.trained.is_some();
        let body = state
            .tools(has_dictionary)
            .compressor
            .compress(&json)
            .ok()?;
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.extend(object.version().to_le_bytes());
        bytes.extend(hash(object.uid()).to_le_bytes());
        bytes.extend(u32::try_from(json.len()).ok()?.to_le_bytes());
        bytes.push(u8::from(has_dictionary));
        bytes.extend(body);
        Some(Packed(bytes.into()))
    }

    pub(super) fn open(&self, packed: &Packed) -> Arc<dyn AnyObject> {
        let place = self.place(packed);
        if let Some((known, object)) = &self.hot()[place]
            && Arc::ptr_eq(&known.0, &packed.0)
        {
            return object.clone();
        }
        let json = {
            let mut state = self.lock();
            let tools = state.tools(packed.has_dictionary());
            tools.decompressor.decompress(packed.body(), packed.size())
        };
        let json = json.expect("what was compressed here is not changed");
        let object = self.reader.read_back(&json);
        let object = object.expect("it was read back before");
        self.remember(packed, object.clone());
        object
    }

    /// Whether the object was packed before there was a dictionary.
    pub(super) fn can_do_better(&self, packed: &Packed) -> bool {
        !packed.has_dictionary() && self.lock().trained.is_some()
    }

    fn remember(&self, packed: &Packed, object: Arc<dyn AnyObject>) {
        let place = self.place(packed);
        let before = self.hot()[place].replace((packed.clone(), object));
        drop(before);
    }

    fn place(&self, packed: &Packed) -> usize {
        (packed.uid_hash() % HOT as u64) as usize
    }

    fn hot(&self) -> MutexGuard<'_, Hot> {
        self.hot.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn tools(&mut self, with_dictionary: bool) -> &mut Tools {
        match (&mut self.trained, with_dictionary) {
            (Some(trained), true) => trained,
            _ => &mut self.plain,
        }
    }

    /// Trains the dictionary as soon as enough objects were seen.
    fn learn(&mut self, json: &[u8]) {
        if self.trained.is_some() {
            return;
        }
        self.samples.push(json.to_vec());
        if self.samples.len() < SAMPLES {
            return;
        }
        let samples = std::mem::take(&mut self.samples);
        let all: usize = samples.iter().map(Vec::len).sum();
        // Objects too small or too much alike teach nothing; the next ones may.
        let dictionary = zstd::dict::from_samples(&samples, DICTIONARY.min(all / SHARE));
        self.trained = dictionary.and_then(|bytes| Tools::new(&bytes)).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::typed;
    use super::super::options::KindOptions;
    use super::*;
    use crate::object::{Object, ObjectExt};
    use k8s_openapi::api::core::v1::Pod;
    use sendo_world::Random;
    use serde_json::{Value, json};

    fn packer<K: Object>() -> Packer {
        let reader: Arc<dyn Reader> = Arc::new(KindOptions::<K>::new().compact());
        Packer::new(&reader).expect("a compact kind has a packer")
    }

    /// Pods of one template, as a cluster has them: names, ids and times differ.
    fn pod(number: usize) -> Arc<Pod> {
        let random = Random::from_seed(number as u64);
        let hex = |len: usize| -> String {
            let digits = (0..len).map(|_| char::from_digit(random.below(0..16) as u32, 16));
            digits.map(|digit| digit.unwrap_or('0')).collect()
        };
        let containers: Vec<Value> = (0..3)
            .map(|n| {
                json!({"name": format!("part-{n}"), "image": format!("registry.example/app/part-{n}:v1.2.3"),
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                    "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
                    "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/x", "readOnly": true}]})
            })
            .collect();
        let pod = json!({
            "metadata": {"name": format!("web-7d4b9c-{}", hex(5)), "namespace": "production",
                "uid": random.uuid(), "resourceVersion": (1000 + number).to_string(),
                "labels": {"app": "web", "pod-template-hash": "7d4b9c"}},
            "spec": {"nodeName": format!("node-{}", random.below(0..50)), "containers": containers,
                "serviceAccountName": "web", "restartPolicy": "Always"},
            "status": {"phase": "Running", "podIP": format!("10.1.{}.{}", random.below(0..256), random.below(0..256)),
                "containerStatuses": (0..3).map(|n| json!({"name": format!("part-{n}"), "ready": true, "restartCount": 0,
                    "image": "registry.example/app:v1", "imageID": "sha256:abc",
                    "containerID": format!("containerd://{}", hex(64))})).collect::<Vec<_>>()},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn what_is_packed_is_what_is_opened_with_a_dictionary_and_without() {
        let packer = packer::<Pod>();
        let pods: Vec<_> = (0..SAMPLES + 50).map(pod).collect();
        let held: Vec<_> = pods.iter().map(|pod| packer.pack(pod.clone())).collect();
        for (pod, held) in pods.iter().zip(&held) {
            let Held::Packed(packed) = held else {
                panic!("a Pod reads back what it writes");
            };
            assert_eq!(typed::<Pod>(packer.open(packed)), *pod);
            assert_eq!(packed.version(), pod.version());
            assert!(packed.is(pod.uid().as_str()) && !packed.is("another"));
        }
        let last = match held.last() {
            Some(Held::Packed(packed)) => packed.len(),
            _ => usize::MAX,
        };
        let json = serde_json::to_vec(&*pods[SAMPLES + 49]).unwrap().len();
        assert!(last * 7 < json, "{last} of {json} bytes");
    }

    #[test]
    fn objects_from_before_the_dictionary_can_be_packed_again() {
        let packer = packer::<Pod>();
        let early = match packer.pack(pod(0)) {
            Held::Packed(packed) => packed,
            Held::Whole(_) => panic!("a Pod reads back what it writes"),
        };
        assert!(!packer.can_do_better(&early));
        for number in 1..SAMPLES {
            packer.pack(pod(number));
        }
        assert!(packer.can_do_better(&early));
    }

    /// A kind whose reader refuses what its writer writes.
    #[test]
    fn what_does_not_read_back_is_kept_as_it_is() {
        #[derive(
            Clone,
            Debug,
            serde::Serialize,
            serde::Deserialize,
            schemars::JsonSchema,
            kube::CustomResource,
        )]
        #[kube(group = "example.dev", version = "v1", kind = "Odd", namespaced)]
        struct OddSpec {
            #[serde(serialize_with = "as_text")]
            number: u32,
        }
        fn as_text<S: serde::Serializer>(number: &u32, to: S) -> Result<S::Ok, S::Error> {
            to.serialize_str(&number.to_string())
        }
        let packer = packer::<Odd>();
        let odd = Arc::new(Odd::new("odd", OddSpec { number: 3 }));
        assert!(matches!(packer.pack(odd), Held::Whole(odd) if odd.is::<Odd>().spec.number == 3));
    }
}
