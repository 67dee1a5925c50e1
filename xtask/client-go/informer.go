package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

var informerSteps = []step{
	{"a shared informer lists by streaming, then follows", informerFollows},
	{"an informer that resyncs tells of what did not change", informerResyncs},
	{"an informer goes on after its connection was cut", informerSurvivesCut},
	{"an informer lists again when its version is gone, and misses no deletion", informerRelists},
	{"an informer without streaming lists in pages and follows", informerPages},
	{"an informer keeps up with many changes through cuts", informerKeepsUp},
}

// What an informer told, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) count(line string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := 0
	for _, other := range d.lines {
		if other == line {
			count++
		}
	}
	return count
}

func (d *diary) has(lines ...string) error {
	for _, line := range lines {
		if d.count(line) == 0 {
			d.mu.Lock()
			defer d.mu.Unlock()
			return fmt.Errorf("not told %q, but %q", line, d.lines)
		}
	}
	return nil
}

func (d *diary) handler() cache.ResourceEventHandler {
	data := func(object any) string {
		config := object.(*corev1.ConfigMap)
		return config.Name + "=" + config.Data["v"]
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if initial {
				d.add("there " + data(object))
			} else {
				d.add("added " + data(object))
			}
		},
		UpdateFunc: func(before, after any) {
			if before.(*corev1.ConfigMap).ResourceVersion == after.(*corev1.ConfigMap).ResourceVersion {
				d.add("again " + data(after))
			} else {
				d.add("updated " + data(after))
			}
		},
		DeleteFunc: func(object any) {
			if unknown, is := object.(cache.DeletedFinalStateUnknown); is {
				d.add("vanished " + unknown.Key[strings.Index(unknown.Key, "/")+1:])
				return
			}
			d.add("deleted " + object.(*corev1.ConfigMap).Name)
		},
	}
}

// ConfigMaps with this label, through an informer on a network of its own.
type follower struct {
	network  *network
	diary    *diary
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
}

func (s *stage) follow(ctx context.Context, label string, resync time.Duration) (*follower, error) {
	network, config := s.network()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, resync,
		informers.WithNamespace(s.namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "app=" + label }))
	return begin(ctx, network, factory.Core().V1().ConfigMaps().Informer())
}

// Follows objects with this label, of which there is one: its name is the label and `-a`.
func (s *stage) followOne(ctx context.Context, label string, resync time.Duration) (*follower, error) {
	if err := s.put(ctx, label, label+"-a", "1"); err != nil {
		return nil, err
	}
	return s.follow(ctx, label, resync)
}

func begin(ctx context.Context, network *network, informer cache.SharedIndexInformer) (*follower, error) {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{network: network, diary: &diary{}, informer: informer, stop: stop}
	if _, err := informer.AddEventHandler(f.diary.handler()); err != nil {
		stop()
		return nil, err
	}
	go informer.RunWithContext(ctx)
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if !cache.WaitForCacheSync(wait.Done(), informer.HasSynced) {
		stop()
		return nil, fmt.Errorf("not synced in %v", patience)
	}
	return f, nil
}

func (s *stage) put(ctx context.Context, label, name, value string) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	object := configMap(name, map[string]string{"v": value})
	object.Labels = map[string]string{"app": label}
	if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err == nil {
		return nil
	}
	_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func (s *stage) remove(ctx context.Context, name string) error {
	return s.client.CoreV1().ConfigMaps(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// Two changes that are one story: another object comes, and the first one goes.
func (s *stage) swap(ctx context.Context, label string) error {
	if err := s.put(ctx, label, label+"-b", "1"); err != nil {
		return err
	}
	return s.remove(ctx, label+"-a")
}

func informerFollows(ctx context.Context, s *stage) error {
	f, err := s.followOne(ctx, "follow", 0)
	if err != nil {
		return err
	}
	defer f.stop()
	if err := s.put(ctx, "follow", "follow-b", "1"); err != nil {
		return err
	}
	if err := s.put(ctx, "follow", "follow-a", "2"); err != nil {
		return err
	}
	if err := s.remove(ctx, "follow-b"); err != nil {
		return err
	}
	err = eventually(ctx, func() error {
		return f.diary.has("there follow-a=1", "added follow-b=1", "updated follow-a=2", "deleted follow-b")
	})
	if err != nil {
		return err
	}
	streamed := f.network.count(func(r request) bool {
		return strings.Contains(r.query, "sendInitialEvents=true") && r.answered == protobuf+";stream=watch"
	})
	return same("streaming lists in protobuf", streamed, 1)
}

func informerResyncs(ctx context.Context, s *stage) error {
	f, err := s.followOne(ctx, "resync", time.Second)
	if err != nil {
		return err
	}
	defer f.stop()
	return eventually(ctx, func() error { return f.diary.has("again resync-a=1") })
}

func informerSurvivesCut(ctx context.Context, s *stage) error {
	f, err := s.followOne(ctx, "cut", 0)
	if err != nil {
		return err
	}
	defer f.stop()
	// A watch that told nothing is not trusted, and the informer lists again.
	if err := s.put(ctx, "cut", "cut-a", "2"); err != nil {
		return err
	}
	if err := eventually(ctx, func() error { return f.diary.has("updated cut-a=2") }); err != nil {
		return err
	}
	f.network.cut()
	if err := s.swap(ctx, "cut"); err != nil {
		return err
	}
	f.network.up()
	// The watch goes on from where it was, so the deletion is told as one.
	return eventually(ctx, func() error { return f.diary.has("there cut-a=1", "added cut-b=1", "deleted cut-a") })
}

func informerRelists(ctx context.Context, s *stage) error {
	f, err := s.followOne(ctx, "relist", 0)
	if err != nil {
		return err
	}
	defer f.stop()
	f.network.cut()
	if err := s.swap(ctx, "relist"); err != nil {
		return err
	}
	f.network.forget()
	f.network.up()
	// The version before is lost, and with it how the object ended.
	return eventually(ctx, func() error { return f.diary.has("there relist-a=1", "added relist-b=1", "vanished relist-a") })
}

// A client that says it cannot list by streaming.
type plain struct{}

func (plain) IsWatchListSemanticsUnSupported() bool { return true }

func informerPages(ctx context.Context, s *stage) error {
	for number := range 12 {
		if err := s.put(ctx, "plain", fmt.Sprintf("plain-%02d", number), "1"); err != nil {
			return err
		}
	}
	network, config := s.network()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(s.namespace)
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = "app=plain"
			return maps.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "app=plain"
			return maps.Watch(ctx, options)
		},
	}
	source := cache.ToListWatcherWithWatchListSemantics(lists, plain{})
	f, err := begin(ctx, network, cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}))
	if err != nil {
		return err
	}
	defer f.stop()
	if err := s.remove(ctx, "plain-07"); err != nil {
		return err
	}
	if err := eventually(ctx, func() error { return f.diary.has("there plain-00=1", "there plain-11=1", "deleted plain-07") }); err != nil {
		return err
	}
	return same("streaming lists", network.count(func(r request) bool { return strings.Contains(r.query, "sendInitialEvents") }), 0)
}

func informerKeepsUp(ctx context.Context, s *stage) error {
	f, err := s.follow(ctx, "busy", 0)
	if err != nil {
		return err
	}
	defer f.stop()
	const writers, changes = 5, 100
	var group sync.WaitGroup
	failures := make(chan error, writers)
	for writer := range writers {
		group.Go(func() {
			for change := range changes {
				name := fmt.Sprintf("busy-%d-%d", writer, change%7)
				err := s.put(ctx, "busy", name, fmt.Sprint(change))
				if change%5 == 4 {
					err = s.remove(ctx, name)
				}
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	// A few cuts only: the library waits longer after each.
	for range 3 {
		time.Sleep(100 * time.Millisecond)
		f.network.cut()
		f.network.up()
	}
	<-done
	select {
	case err := <-failures:
		return err
	default:
	}
	selector := labels.SelectorFromSet(labels.Set{"app": "busy"})
	return eventually(ctx, func() error {
		list, err := s.client.CoreV1().ConfigMaps(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			return err
		}
		var stored, cached []string
		for _, item := range list.Items {
			stored = append(stored, item.Name+"@"+item.ResourceVersion)
		}
		for _, item := range f.informer.GetStore().List() {
			object := item.(*corev1.ConfigMap)
			cached = append(cached, object.Name+"@"+object.ResourceVersion)
		}
		sort.Strings(cached)
		return same("what is cached", strings.Join(cached, " "), strings.Join(stored, " "))
	})
}
