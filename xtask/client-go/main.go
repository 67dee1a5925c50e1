// A program that uses a cluster as programs written in Go do: typed clients
// that speak protobuf, shared informers, apply configurations, dynamic and
// discovery clients, leader election.
//
// It works in a namespace of its own and prints a line of JSON for each step
// that is over. `cargo xtask e2e` builds and runs it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// How long a step waits for what must come.
const patience = 20 * time.Second

// What every step is given.
type stage struct {
	// Address and credentials; each step makes its clients from it.
	config    *rest.Config
	client    *kubernetes.Clientset
	namespace string
	// A program of this workspace that elects a leader.
	candidate string
	// The kubeconfig that program is given.
	kubeconfig string
}

// A step has a name that says what must hold.
type step struct {
	name string
	run  func(context.Context, *stage) error
}

// Chapters play side by side, the steps of one build on each other.
var chapters = [][]step{typedSteps, informerSteps, applySteps, dynamicSteps, accessSteps, electionSteps}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "address and credentials of an administrator")
	namespace := flag.String("namespace", "e2e-client-go", "a namespace that is not there yet")
	candidate := flag.String("candidate", "", "a program that takes part in the election")
	flag.Parse()
	// What the library logs of cut connections is what a step asks for.
	klog.SetLogger(logr.Discard())

	s, err := newStage(*kubeconfig, *namespace, *candidate)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx := context.Background()
	failed := !tell("a namespace and its service account", func() error { return s.open(ctx) })
	if !failed {
		failed = !play(ctx, s)
		failed = !tell("the namespace is deleted", func() error { return s.close(ctx) }) || failed
	}
	if failed {
		os.Exit(1)
	}
}

func newStage(kubeconfig, namespace, candidate string) (*stage, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "e2e-client-go"
	// The steps are many requests in a short time, on purpose.
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &stage{config: config, client: client, namespace: namespace, candidate: candidate, kubeconfig: kubeconfig}, nil
}

func (s *stage) open(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		_, err := s.client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

func (s *stage) close(ctx context.Context) error {
	return s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
}

// Plays all chapters; false if a step failed.
func play(ctx context.Context, s *stage) bool {
	var group sync.WaitGroup
	results := make(chan bool, len(chapters))
	for _, steps := range chapters {
		group.Go(func() {
			for _, step := range steps {
				if !tell(step.name, func() error { return step.run(ctx, s) }) {
					results <- false
					return
				}
			}
		})
	}
	group.Wait()
	return len(results) == 0
}

var printing sync.Mutex

// Runs a step and prints what came of it.
func tell(name string, run func() error) bool {
	began := time.Now()
	err := run()
	line := struct {
		Step    string  `json:"step"`
		Seconds float64 `json:"seconds"`
		Error   string  `json:"error,omitempty"`
	}{Step: name, Seconds: time.Since(began).Seconds()}
	if err != nil {
		line.Error = err.Error()
	}
	printing.Lock()
	defer printing.Unlock()
	json.NewEncoder(os.Stdout).Encode(line)
	return err == nil
}

// Asks again until it holds.
func eventually(ctx context.Context, holds func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("still after %v: %w", patience, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// An error unless both are the same.
func same[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
