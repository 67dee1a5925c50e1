// The work of bench/src/peers.rs, done by controller-runtime.
//
// Usage: <kubeconfig> <namespace> <workers>. Prints reconciles a second, then the
// median and the 99th percentile from a write to its reconcile, in microseconds.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	objects = 1000
	rounds  = 100
	writes  = 1000
)

func main() {
	ctrl.SetLogger(logr.Discard())
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace, workersText string) error {
	workers, err := strconv.Atoi(workersText)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no limit of its own, as the others
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}

	var done atomic.Int64
	var lock sync.Mutex
	sent := make([]time.Time, writes)
	seen := make([]time.Duration, writes)
	var seenCount atomic.Int64
	reader := manager.GetClient()
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		now := time.Now()
		var object corev1.ConfigMap
		if err := reader.Get(ctx, request.NamespacedName, &object); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if number, err := strconv.Atoi(object.Data["n"]); err == nil {
			lock.Lock()
			if start := sent[number]; !start.IsZero() && seen[number] == 0 {
				seen[number] = now.Sub(start)
				seenCount.Add(1)
			}
			lock.Unlock()
		}
		done.Add(1)
		return reconcile.Result{}, nil
	})
	triggers := make(chan event.GenericEvent, 1)
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list corev1.ConfigMapList
		if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			panic(err)
		}
		requests := make([]reconcile.Request, 0, len(list.Items))
		for _, object := range list.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&object)})
		}
		return requests
	})
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WatchesRawSource(source.Channel(triggers, all)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconciler)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	wait := func(count int64) {
		for done.Load() < count {
			time.Sleep(100 * time.Microsecond)
		}
	}
	wait(objects)
	time.Sleep(time.Second)

	began, count := time.Now(), done.Load()
	for range rounds {
		triggers <- event.GenericEvent{Object: &corev1.ConfigMap{}}
		count += objects
		wait(count)
	}
	rate := float64(rounds*objects) / time.Since(began).Seconds()

	for number := range writes {
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"n": strconv.Itoa(number)}})
		if err != nil {
			return err
		}
		object := corev1.ConfigMap{}
		object.Namespace, object.Name = namespace, fmt.Sprintf("o-%d", number%objects)
		lock.Lock()
		sent[number] = time.Now()
		lock.Unlock()
		if err := reader.Patch(ctx, &object, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	for seenCount.Load() < writes {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	slices.Sort(seen)
	at := func(share int) int64 { return seen[(len(seen)-1)*share/100].Microseconds() }
	fmt.Println(int64(rate), at(50), at(99))
	return nil
}
