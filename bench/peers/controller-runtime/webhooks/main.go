// The work of bench/src/webhooks.rs, done by controller-runtime's webhook server.
//
// Usage: <folder with tls.crt and tls.key> <port>. It serves until it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func main() {
	ctrl.SetLogger(logr.Discard())
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(folder, portText string) error {
	port, err := strconv.Atoi(portText)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: folder})
	server.Register("/validate-v1-pod", admission.WithValidator[*corev1.Pod](scheme, pods{}))
	server.Register("/mutate-v1-pod", admission.WithDefaulter[*corev1.Pod](scheme, pods{}))
	return server.Start(context.Background())
}

type pods struct{}

func (pods) ValidateCreate(_ context.Context, pod *corev1.Pod) (admission.Warnings, error) {
	if len(pod.Spec.Containers) == 0 {
		return nil, errors.New("name a container")
	}
	return nil, nil
}

func (pods) ValidateUpdate(context.Context, *corev1.Pod, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

func (pods) ValidateDelete(context.Context, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

func (pods) Default(_ context.Context, pod *corev1.Pod) error {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["bench.sendo.example/seen"] = "true"
	return nil
}
