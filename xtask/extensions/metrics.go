package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const metricsAPIService = "v1beta1.metrics.k8s.io"

var metricsSteps = []step{
	{"the metrics server runs behind an APIService", serveMetrics},
	{"its APIService becomes available", metricsAvailable},
	{"discovery and OpenAPI have what it serves", metricsDiscovered},
	{"kubectl top shows nodes and pods through it", kubectlTop},
	{"it decides with the cluster what a user may do", metricsAuthorized},
	{"its APIService is unavailable when it has ended", metricsEnd},
}

// The running metrics server, and the name of its node.
var metrics struct {
	process *exec.Cmd
	log     string
	node    string
}

// The label of nodes whose metrics are read, so that the cluster's own are left alone.
const nodeLabel = "e2e.sendo.example/kubelet"

// What the node and its one pod have used, as a kubelet reports it.
const (
	nodeCPU, nodeMemory = 1.5, 2 << 30
	podCPU, podMemory   = 0.25, 64 << 20
)

// Answers as a kubelet does whose node and containers have been busy at a steady rate.
func kubelet(namespace string) http.Handler {
	began := time.Now().Add(-time.Hour)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path != "/metrics/resource" {
			http.NotFound(w, request)
			return
		}
		now := time.Now()
		seconds, at := now.Sub(began).Seconds(), now.UnixMilli()
		container := fmt.Sprintf(`{container="main",namespace=%q,pod="busy"}`, namespace)
		fmt.Fprintf(w, "node_cpu_usage_seconds_total %f %d\n", seconds*nodeCPU, at)
		fmt.Fprintf(w, "node_memory_working_set_bytes %d %d\n", nodeMemory, at)
		fmt.Fprintf(w, "container_cpu_usage_seconds_total%s %f %d\n", container, seconds*podCPU, at)
		fmt.Fprintf(w, "container_memory_working_set_bytes%s %d %d\n", container, podMemory, at)
		fmt.Fprintf(w, "container_start_time_seconds%s %d\n", container, began.Unix())
	})
}

// Makes a node whose kubelet is in this program, and a running pod.
func (s *stage) makeNode(ctx context.Context) error {
	folder := filepath.Join(s.folder, "kubelet")
	if _, err := serviceCertificate(folder, "kubelet"); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(s.host(), "0"))
	if err != nil {
		return err
	}
	// It ends with this program.
	go func() {
		_ = http.ServeTLS(listener, kubelet(s.namespace), filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key"))
	}()
	metrics.node = s.namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: metrics.node, Labels: map[string]string{nodeLabel: "true"}}}
	node.Spec.Unschedulable = true
	if err := s.client.Create(ctx, node); err != nil {
		return err
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: s.host()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	capacity := corev1.ResourceList{}
	if err := json.Unmarshal([]byte(`{"cpu": "4", "memory": "8Gi", "pods": "10"}`), &capacity); err != nil {
		return err
	}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity
	if err := s.client.Status().Update(ctx, node); err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "busy", Namespace: s.namespace},
		Spec:       corev1.PodSpec{NodeName: metrics.node, Containers: []corev1.Container{{Name: "main", Image: "busy"}}},
	}
	err = eventually(ctx, func() error { return s.client.Create(ctx, pod) })
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	return s.client.Status().Update(ctx, pod)
}

// Starts the metrics server, and names it in an APIService.
func serveMetrics(ctx context.Context, s *stage) error {
	if s.metricsServer == "" {
		return errors.New("no metrics server was built")
	}
	if err := s.makeNode(ctx); err != nil {
		return err
	}
	port, err := s.freePort()
	if err != nil {
		return err
	}
	folder := filepath.Join(s.folder, "metrics-server")
	bundle, err := serviceCertificate(folder, "metrics-server."+s.namespace+".svc")
	if err != nil {
		return err
	}
	metrics.log = filepath.Join(folder, "log")
	log, err := os.Create(metrics.log)
	if err != nil {
		return err
	}
	metrics.process = exec.CommandContext(ctx, s.metricsServer,
		"--kubeconfig="+s.kubeconfig,
		"--authentication-kubeconfig="+s.kubeconfig,
		"--authorization-kubeconfig="+s.kubeconfig,
		"--bind-address="+s.host(),
		"--secure-port="+strconv.Itoa(int(port)),
		"--tls-cert-file="+filepath.Join(folder, "tls.crt"),
		"--tls-private-key-file="+filepath.Join(folder, "tls.key"),
		"--kubelet-insecure-tls",
		"--kubelet-use-node-status-port",
		"--kubelet-preferred-address-types=InternalIP",
		"--node-selector="+nodeLabel+"=true",
		"--metric-resolution=10s",
		"--kubelet-request-timeout=5s",
	)
	metrics.process.Stdout, metrics.process.Stderr = log, log
	if err := metrics.process.Start(); err != nil {
		return err
	}
	if err := s.expose(ctx, "metrics-server", port); err != nil {
		return err
	}
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	service.SetName(metricsAPIService)
	service.Object["spec"] = map[string]any{
		"group": "metrics.k8s.io", "version": "v1beta1",
		"groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"service":  map[string]any{"namespace": s.namespace, "name": "metrics-server", "port": int64(s.servicePort(port))},
		"caBundle": bundle,
	}
	return s.client.Create(ctx, service)
}

// Waits until the condition Available has this status.
func untilAvailable(ctx context.Context, s *stage, status string) error {
	return eventually(ctx, func() error {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
		if err := s.client.Get(ctx, client.ObjectKey{Name: metricsAPIService}, service); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		for _, item := range conditions {
			condition := item.(map[string]any)
			if condition["type"] == "Available" && condition["status"] == status {
				return nil
			}
		}
		return fmt.Errorf("conditions: %v", conditions)
	})
}

func metricsAvailable(ctx context.Context, s *stage) error {
	if err := untilAvailable(ctx, s, "True"); err != nil {
		return withLog(err)
	}
	return nil
}

// Adds the last lines that the metrics server has logged.
func withLog(err error) error {
	log, _ := os.ReadFile(metrics.log)
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	last := lines[max(0, len(lines)-10):]
	return fmt.Errorf("%w; the metrics server says:\n%s", err, strings.Join(last, "\n"))
}

// Runs kubectl to its end, and returns what it prints.
func (s *stage) kubectlRun(ctx context.Context, words ...string) (string, error) {
	command := exec.CommandContext(ctx, s.kubectl, words...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig, "KUBECACHEDIR="+filepath.Join(s.folder, "kubectl-cache"))
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(words, " "), err, output)
	}
	return string(output), nil
}

func metricsDiscovered(ctx context.Context, s *stage) error {
	return eventually(ctx, func() error {
		resources, err := s.kubectlRun(ctx, "api-resources", "--api-group=metrics.k8s.io", "--no-headers", "--output=name")
		if err != nil {
			return err
		}
		if err := same("resources", strings.Join(strings.Fields(resources), " "), "nodes.metrics.k8s.io pods.metrics.k8s.io"); err != nil {
			return err
		}
		explained, err := s.kubectlRun(ctx, "explain", "--api-version=metrics.k8s.io/v1beta1", "podmetrics.containers.usage")
		if err != nil {
			return err
		}
		if !strings.Contains(explained, "KIND:       PodMetrics") {
			return fmt.Errorf("kubectl explain says:\n%s", explained)
		}
		return nil
	})
}

func kubectlTop(ctx context.Context, s *stage) error {
	return eventually(ctx, func() error {
		nodes, err := s.kubectlRun(ctx, "top", "node", metrics.node, "--no-headers")
		if err != nil {
			return err
		}
		if err := same("kubectl top node", strings.Join(strings.Fields(nodes), " "), metrics.node+" 1500m 37% 2048Mi 25%"); err != nil {
			return err
		}
		pods, err := s.kubectlRun(ctx, "top", "pod", "--namespace="+s.namespace, "--no-headers")
		if err != nil {
			return err
		}
		return same("kubectl top pod", strings.Join(strings.Fields(pods), " "), "busy 250m 64Mi")
	})
}

func metricsAuthorized(ctx context.Context, s *stage) error {
	_, err := s.kubectlRun(ctx, "get", "nodes.metrics.k8s.io", "--as=ann")
	if err == nil || !strings.Contains(err.Error(), `User "ann" cannot list resource "nodes" in API group "metrics.k8s.io"`) {
		return fmt.Errorf("ann is not refused: %v", err)
	}
	role := []string{"create", "clusterrole", s.namespace, "--verb=get,list,watch", "--resource=nodes.metrics.k8s.io"}
	if _, err := s.kubectlRun(ctx, role...); err != nil {
		return err
	}
	binding := []string{"create", "clusterrolebinding", s.namespace, "--clusterrole=" + s.namespace, "--user=ann"}
	if _, err := s.kubectlRun(ctx, binding...); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		nodes, err := s.kubectlRun(ctx, "get", "nodes.metrics.k8s.io", "--as=ann", "--output=name")
		if err != nil {
			return err
		}
		return same("nodes", strings.TrimSpace(nodes), "nodemetrics.metrics.k8s.io/"+metrics.node)
	})
}

// Ends the metrics server, if it runs.
func endMetricsServer() {
	if metrics.process == nil || metrics.process.Process == nil {
		return
	}
	// It may have ended by itself.
	_ = metrics.process.Process.Kill()
	_ = metrics.process.Wait()
}

func metricsEnd(ctx context.Context, s *stage) error {
	endMetricsServer()
	if err := untilAvailable(ctx, s, "False"); err != nil {
		return err
	}
	for _, words := range [][]string{
		{"delete", "apiservice", metricsAPIService},
		{"delete", "node", metrics.node},
		{"delete", "clusterrole,clusterrolebinding", s.namespace},
	} {
		if _, err := s.kubectlRun(ctx, words...); err != nil {
			return err
		}
	}
	return nil
}
