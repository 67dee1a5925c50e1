package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
)

var dynamicSteps = []step{
	{"discovery tells version, groups and resources", discovers},
	{"a kind of one's own is defined, and mapped to its resource", defines},
	{"a dynamic client writes, applies and lists it", dynamicWrites},
	{"a dynamic informer follows it", dynamicInformer},
	{"a scale client scales it", scales},
	{"a metadata client reads any kind in protobuf", metadataOnly},
	{"the kind is gone with its definition", undefines},
}

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	ships       = schema.GroupVersionResource{Group: "go.e2e.example.dev", Version: "v1", Resource: "ships"}
)

func discovers(ctx context.Context, s *stage) error {
	client := s.client.Discovery()
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	if err := same("version", version.Major+"."+version.Minor, "1.36"); err != nil {
		return err
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		return err
	}
	found := discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "watch", "patch"}}, lists)
	resources, err := discovery.GroupVersionResources(found)
	if err != nil {
		return err
	}
	for _, want := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	} {
		if _, is := resources[want]; !is {
			return fmt.Errorf("no %s", want)
		}
	}
	document, err := client.OpenAPIV3().Paths()
	if err != nil {
		return err
	}
	if _, is := document["apis/apps/v1"]; !is {
		return fmt.Errorf("no OpenAPI document for apps/v1")
	}
	return nil
}

func defines(ctx context.Context, s *stage) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": "ships.go.e2e.example.dev"},
		"spec": map[string]any{
			"group": "go.e2e.example.dev",
			"scope": "Namespaced",
			"names": map[string]any{"plural": "ships", "kind": "Ship"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{
					"status": map[string]any{},
					"scale":  map[string]any{"specReplicasPath": ".spec.oars", "statusReplicasPath": ".status.oars"},
				},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": map[string]any{
							"oars": map[string]any{"type": "integer", "default": int64(2)},
							"sail": map[string]any{"type": "string"},
						}},
						"status": map[string]any{"type": "object", "properties": map[string]any{
							"oars": map[string]any{"type": "integer"},
						}},
					},
				}},
			}},
		},
	}}
	if _, err := client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	mapper := s.mapper()
	return eventually(ctx, func() error {
		mapper.Reset()
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: ships.Group, Kind: "Ship"})
		if err != nil {
			return err
		}
		return same("resource", mapping.Resource, ships)
	})
}

func (s *stage) mapper() *restmapper.DeferredDiscoveryRESTMapper {
	return restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.client.Discovery()))
}

func ship(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "go.e2e.example.dev/v1",
		"kind":       "Ship",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"sail": "sloop"},
	}}
}

func dynamicWrites(ctx context.Context, s *stage) error {
	dynamic, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	client := dynamic.Resource(ships).Namespace(s.namespace)
	// A definition is served a moment after it is accepted.
	err = eventually(ctx, func() error {
		_, err := client.Create(ctx, ship("gull"), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	got, err := client.Apply(ctx, "tern", ship("tern"), metav1.ApplyOptions{FieldManager: "go"})
	if err != nil {
		return err
	}
	oars, _, err := unstructured.NestedInt64(got.Object, "spec", "oars")
	if err != nil {
		return err
	}
	if err := same("oars by default", oars, 2); err != nil {
		return err
	}
	unstructured.SetNestedField(got.Object, int64(2), "status", "oars")
	if _, err := client.UpdateStatus(ctx, got, metav1.UpdateOptions{}); err != nil {
		return err
	}
	list, err := client.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=gull"})
	if err != nil {
		return err
	}
	return same("list", fmt.Sprintf("%d %s %s", len(list.Items), list.Items[0].GetName(), list.GetKind()), "1 tern ShipList")
}

func dynamicInformer(ctx context.Context, s *stage) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, time.Hour, s.namespace, nil)
	informer := factory.ForResource(ships).Informer()
	names := make(chan string, 16)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { names <- object.(*unstructured.Unstructured).GetName() },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	there := []string{<-names, <-names}
	slices.Sort(there)
	if _, err := client.Resource(ships).Namespace(s.namespace).Create(ctx, ship("skua"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return same("ships", fmt.Sprintf("%v %s", there, <-names), "[gull tern] skua")
}

func scales(ctx context.Context, s *stage) error {
	resolver := scale.NewDiscoveryScaleKindResolver(s.client.Discovery())
	client, err := scale.NewForConfig(s.config, s.mapper(), dynamic.LegacyAPIPathResolverFunc, resolver)
	if err != nil {
		return err
	}
	scales := client.Scales(s.namespace)
	got, err := scales.Get(ctx, ships.GroupResource(), "tern", metav1.GetOptions{})
	if err != nil {
		return err
	}
	got.Spec.Replicas = 8
	got, err = scales.Update(ctx, ships.GroupResource(), got, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return same("oars", fmt.Sprint(got.Spec.Replicas, got.Status.Replicas), "8 2")
}

func metadataOnly(ctx context.Context, s *stage) error {
	network, config := s.network()
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	list, err := client.Resource(ships).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := same("ships", len(list.Items), 3); err != nil {
		return err
	}
	spoken := network.count(func(r request) bool {
		return strings.Contains(r.asked, "as=PartialObjectMetadataList") && r.answered == protobuf
	})
	return same("answers in protobuf", spoken, 1)
}

func undefines(ctx context.Context, s *stage) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	stream, err := client.Resource(ships).Namespace(s.namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := client.Resource(definitions).Delete(ctx, "ships.go.e2e.example.dev", metav1.DeleteOptions{}); err != nil {
		return err
	}
	deadline := time.After(patience)
	for open := true; open; {
		select {
		case _, open = <-stream.ResultChan():
		case <-deadline:
			return fmt.Errorf("the watch goes on without the kind")
		}
	}
	return eventually(ctx, func() error {
		_, err := s.client.Discovery().ServerResourcesForGroupVersion("go.e2e.example.dev/v1")
		if err == nil {
			return fmt.Errorf("still discovered")
		}
		return nil
	})
}
