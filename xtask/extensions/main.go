// Programs that a cluster calls, as they are written in Go: webhooks made with
// controller-runtime, and the metrics server of Kubernetes behind an
// APIService.
//
// It works in a namespace of its own and prints a line of JSON for each step
// that is over. `cargo xtask e2e` builds and runs it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How long a step waits for what must come.
const patience = 40 * time.Second

// What every step is given.
type stage struct {
	config     *rest.Config
	scheme     *runtime.Scheme
	client     client.Client
	kubeconfig string
	kubectl    string
	namespace  string
	// A folder for certificates and logs.
	folder string
	// An address of this machine that endpoints may have; nil if it has only loopback ones.
	address net.IP
	// The program to run as metrics server; empty if there is none.
	metricsServer string
}

// A step has a name that says what must hold.
type step struct {
	name string
	run  func(context.Context, *stage) error
}

// A step returns this if the machine does not allow it.
type skipped struct{ why string }

func (s skipped) Error() string { return s.why }

// Chapters play side by side, the steps of one build on each other.
var chapters = [][]step{webhookSteps, metricsSteps}

func main() {
	s := &stage{scheme: runtime.NewScheme()}
	flag.StringVar(&s.kubeconfig, "admin", "", "kubeconfig of an administrator")
	flag.StringVar(&s.kubectl, "kubectl", "kubectl", "the kubectl to use")
	flag.StringVar(&s.namespace, "namespace", "e2e-extensions", "a namespace that is not there yet")
	flag.StringVar(&s.folder, "folder", "", "an empty folder for certificates and logs")
	flag.StringVar(&s.metricsServer, "metrics-server", "", "the metrics server")
	flag.Parse()
	// What the libraries log of calls that fail is what a step asks for.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())

	if err := s.connect(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := !tell("a namespace for what the cluster calls", func() error { return s.open(ctx) })
	tell("the machine has an address that endpoints may have", func() error {
		if s.address == nil {
			return skipped{"it has loopback addresses only: Services stand for the name localhost, without EndpointSlices"}
		}
		return nil
	})
	if !failed {
		failed = !play(ctx, s)
	}
	endMetricsServer()
	if failed {
		cancel()
		os.Exit(1)
	}
}

func (s *stage) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 500, 1000
	s.config = config
	utilruntime.Must(clientgoscheme.AddToScheme(s.scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(s.scheme))
	addWidgets(s.scheme)
	s.address, err = ownAddress()
	if err != nil {
		return err
	}
	s.client, err = client.New(config, client.Options{Scheme: s.scheme})
	return err
}

// An address of this machine that is no loopback one, which endpoints must not have.
func ownAddress() (net.IP, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		if own, ok := address.(*net.IPNet); ok && own.IP.IsGlobalUnicast() && own.IP.To4() != nil {
			return own.IP, nil
		}
	}
	return nil, nil
}

func (s *stage) open(ctx context.Context) error {
	return s.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
}

// Makes a Service whose port 443 leads to a port of this machine: through an EndpointSlice, or,
// where the machine has loopback addresses only, by a name for one.
func (s *stage) expose(ctx context.Context, name string, port int32) error {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}}
	if s.address == nil {
		service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
		return s.client.Create(ctx, service)
	}
	service.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
	if err := s.client.Create(ctx, service); err != nil {
		return err
	}
	portName, ready := "https", true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + "-e2e", Namespace: s.namespace,
			Labels: map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{s.address.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
	}
	return s.client.Create(ctx, slice)
}

// The port by which the Service made by expose is called.
func (s *stage) servicePort(port int32) int32 {
	if s.address == nil {
		return port
	}
	return 443
}

// The address to listen on.
func (s *stage) host() string {
	if s.address == nil {
		return "127.0.0.1"
	}
	return s.address.String()
}

// A port that nobody listens on.
func (s *stage) freePort() (int32, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(s.host(), "0"))
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return int32(listener.Addr().(*net.TCPAddr).Port), nil
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
		Skipped string  `json:"skipped,omitempty"`
	}{Step: name, Seconds: time.Since(began).Seconds()}
	var why skipped
	if errors.As(err, &why) {
		line.Skipped, err = why.why, nil
	}
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
		case <-time.After(50 * time.Millisecond):
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
