package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

var typedSteps = []step{
	{"a typed client creates, reads, updates and deletes in protobuf", typedRoundTrip},
	{"an update of an old version is a conflict, and a retry heals it", conflicts},
	{"errors carry reason and causes", typedErrors},
	{"the three patches of a typed client", patches},
	{"a list in pages is whole", pages},
	{"a watch tells added, modified, deleted, and bookmarks", watches},
	{"a deployment rolls out, and its scale is read and written", deployments},
	{"a pod is evicted", evictions},
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

const protobuf = "application/vnd.kubernetes.protobuf"

func typedRoundTrip(ctx context.Context, s *stage) error {
	network, config := s.network()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(s.namespace)
	created, err := maps.Create(ctx, configMap("typed", map[string]string{"depth": "12"}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Data["depth"] = "13"
	created.BinaryData = map[string][]byte{"raw": {0, 255, 10}}
	if _, err = maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	got, err := maps.Get(ctx, "typed", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := same("data", fmt.Sprint(got.Data, got.BinaryData), "map[depth:13] map[raw:[0 255 10]]"); err != nil {
		return err
	}
	if err := same("managers", managers(got.ManagedFields), "e2e-client-go Update"); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "typed", metav1.DeleteOptions{}); err != nil {
		return err
	}
	total := network.count(func(request) bool { return true })
	spoken := network.count(func(r request) bool {
		return strings.HasPrefix(r.asked, protobuf) && r.answered == protobuf && (r.sent == "" || r.sent == protobuf)
	})
	return same("requests in protobuf", spoken, total)
}

func managers(entries []metav1.ManagedFieldsEntry) string {
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Manager+" "+string(entry.Operation))
	}
	return strings.Join(names, ", ")
}

func conflicts(ctx context.Context, s *stage) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	old, err := maps.Create(ctx, configMap("shared", map[string]string{"count": ""}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, 4)
	for range 4 {
		group.Go(func() {
			failures <- retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				current, err := maps.Get(ctx, "shared", metav1.GetOptions{})
				if err != nil {
					return err
				}
				current.Data["count"] += "x"
				_, err = maps.Update(ctx, current, metav1.UpdateOptions{})
				return err
			})
		})
	}
	group.Wait()
	for range 4 {
		if err := <-failures; err != nil {
			return err
		}
	}
	current, err := maps.Get(ctx, "shared", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := same("count", current.Data["count"], "xxxx"); err != nil {
		return err
	}
	_, err = maps.Update(ctx, old, metav1.UpdateOptions{})
	return same("an old update is a conflict", apierrors.IsConflict(err), true)
}

func typedErrors(ctx context.Context, s *stage) error {
	pods := s.client.CoreV1().Pods(s.namespace)
	_, err := pods.Get(ctx, "nobody", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("no NotFound: %w", err)
	}
	_, err = pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) {
		return fmt.Errorf("no Invalid: %w", err)
	}
	var fields []string
	for _, cause := range err.(*apierrors.StatusError).ErrStatus.Details.Causes {
		fields = append(fields, cause.Field+" "+string(cause.Type))
	}
	if err := same("causes", strings.Join(fields, ", "), "metadata.name FieldValueInvalid, spec.containers FieldValueRequired"); err != nil {
		return err
	}
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	if _, err = maps.Create(ctx, configMap("twice", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = maps.Create(ctx, configMap("twice", nil), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("no AlreadyExists: %w", err)
	}
	wrong := types.UID("1234")
	err = maps.Delete(ctx, "twice", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("no Conflict: %w", err)
	}
	return nil
}

func patches(ctx context.Context, s *stage) error {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	if _, err := deployments.Create(ctx, deployment("patched", 0), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, patch := range []struct {
		kind types.PatchType
		body string
	}{
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"registry.example/side:1"}]}}}}`},
		{types.MergePatchType, `{"metadata":{"labels":{"tier":"front"}}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"registry.example/side:2"}]`},
	} {
		if _, err := deployments.Patch(ctx, "patched", patch.kind, []byte(patch.body), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", patch.kind, err)
		}
	}
	got, err := deployments.Get(ctx, "patched", metav1.GetOptions{})
	if err != nil {
		return err
	}
	var images []string
	for _, container := range got.Spec.Template.Spec.Containers {
		images = append(images, container.Image)
	}
	return same("images and label", fmt.Sprint(images, " ", got.Labels["tier"]), "[registry.example/side:2 registry.example/server:1] front")
}

func pages(ctx context.Context, s *stage) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	for number := range 25 {
		page := configMap(fmt.Sprintf("page-%02d", number), nil)
		page.Labels = map[string]string{"book": "log"}
		if _, err := maps.Create(ctx, page, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	var names []string
	requests := 0
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		requests++
		return maps.List(ctx, options)
	})
	list.PageSize = 10
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: "book=log"}, func(item runtime.Object) error {
		names = append(names, item.(*corev1.ConfigMap).Name)
		return nil
	})
	if err != nil {
		return err
	}
	if err := same("items and pages", fmt.Sprintf("%d %d %s %s", len(names), requests, names[0], names[24]), "25 3 page-00 page-24"); err != nil {
		return err
	}
	return maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "book=log"})
}

func watches(ctx context.Context, s *stage) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	options := metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=tide", AllowWatchBookmarks: true}
	stream, err := maps.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer stream.Stop()
	tide, err := maps.Create(ctx, configMap("tide", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	tide.Data = map[string]string{"level": "high"}
	if tide, err = maps.Update(ctx, tide, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "tide", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event := <-stream.ResultChan()
		if err := same("event", event.Type, want); err != nil {
			return err
		}
	}
	// A streaming list ends with a bookmark that says so.
	yes := true
	initial, err := maps.Watch(ctx, metav1.ListOptions{
		SendInitialEvents:    &yes,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		FieldSelector:        "metadata.name=shared",
	})
	if err != nil {
		return err
	}
	defer initial.Stop()
	if err := same("first of a streaming list", (<-initial.ResultChan()).Type, watch.Added); err != nil {
		return err
	}
	end := <-initial.ResultChan()
	if err := same("last of a streaming list", end.Type, watch.Bookmark); err != nil {
		return err
	}
	return same("the bookmark's annotation", end.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey], "true")
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	second := int64(1)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &second,
					Containers:                    []corev1.Container{{Name: "server", Image: "registry.example/server:1"}},
				},
			},
		},
	}
}

func deployments(ctx context.Context, s *stage) error {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	if _, err := deployments.Create(ctx, deployment("web", 1), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.available(ctx, "web", 1); err != nil {
		return err
	}
	scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := same("selector of the scale", scale.Status.Selector, "app=web"); err != nil {
		return err
	}
	scale.Spec.Replicas = 2
	if _, err := deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return s.available(ctx, "web", 2)
}

func (s *stage) available(ctx context.Context, name string, want int32) error {
	return eventually(ctx, func() error {
		got, err := s.client.AppsV1().Deployments(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return same("available replicas of "+name, got.Status.AvailableReplicas, want)
	})
}

func evictions(ctx context.Context, s *stage) error {
	pods := s.client.CoreV1().Pods(s.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		return err
	}
	victim := list.Items[0]
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: victim.Name, Namespace: s.namespace}}
	if err := pods.EvictV1(ctx, eviction); err != nil {
		return err
	}
	err = eventually(ctx, func() error {
		_, err := pods.Get(ctx, victim.Name, metav1.GetOptions{})
		return same("the pod is gone", apierrors.IsNotFound(err), true)
	})
	if err != nil {
		return err
	}
	return s.available(ctx, "web", 2)
}
