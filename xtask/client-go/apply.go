package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
)

var applySteps = []step{
	{"a typed configuration is applied, and again without a change", appliedTwice},
	{"another manager's value is a conflict that names the field", applyConflict},
	{"force takes the field over", applyForce},
	{"what a manager applied is extracted, and what it drops is removed", applyExtract},
	{"a status is applied by a manager of its own", applyStatus},
}

func wanted(s *stage, replicas int32, image string) *appsapply.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "applied"}
	server := coreapply.Container().WithName("server").WithImage(image).
		WithEnv(coreapply.EnvVar().WithName("A").WithValue("1"), coreapply.EnvVar().WithName("B").WithValue("2"))
	return appsapply.Deployment("applied", s.namespace).
		WithLabels(map[string]string{"tier": "front"}).
		WithSpec(appsapply.DeploymentSpec().
			WithReplicas(replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().
				WithLabels(labels).
				WithSpec(coreapply.PodSpec().WithContainers(server))))
}

func appliedTwice(ctx context.Context, s *stage) error {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	options := metav1.ApplyOptions{FieldManager: "first"}
	first, err := deployments.Apply(ctx, wanted(s, 0, "registry.example/server:1"), options)
	if err != nil {
		return err
	}
	if err := same("managers", managers(first.ManagedFields), "first Apply"); err != nil {
		return err
	}
	// The controllers write the status meanwhile, so the spec tells.
	again, err := deployments.Apply(ctx, wanted(s, 0, "registry.example/server:1"), options)
	if err != nil {
		return err
	}
	return same("generation", again.Generation, first.Generation)
}

func applyConflict(ctx context.Context, s *stage) error {
	second := appsapply.Deployment("applied", s.namespace).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(2))
	_, err := s.client.AppsV1().Deployments(s.namespace).Apply(ctx, second, metav1.ApplyOptions{FieldManager: "second"})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("no conflict: %v", err)
	}
	cause := err.(*apierrors.StatusError).ErrStatus.Details.Causes[0]
	return same("cause", fmt.Sprint(cause.Type, " ", cause.Field, " ", cause.Message), `FieldManagerConflict .spec.replicas conflict with "first"`)
}

func applyForce(ctx context.Context, s *stage) error {
	second := appsapply.Deployment("applied", s.namespace).
		WithSpec(appsapply.DeploymentSpec().WithReplicas(0).
			WithTemplate(coreapply.PodTemplateSpec().WithSpec(coreapply.PodSpec().WithContainers(
				coreapply.Container().WithName("server").WithImage("registry.example/server:2")))))
	got, err := s.client.AppsV1().Deployments(s.namespace).Apply(ctx, second, metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil {
		return err
	}
	return same("image", got.Spec.Template.Spec.Containers[0].Image, "registry.example/server:2")
}

func applyExtract(ctx context.Context, s *stage) error {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	live, err := deployments.Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	mine, err := appsapply.ExtractDeployment(live, "first")
	if err != nil {
		return err
	}
	container := &mine.Spec.Template.Spec.Containers[0]
	if container.Image != nil {
		return fmt.Errorf("the image is still the first manager's: %s", *container.Image)
	}
	container.Env = container.Env[:1]
	got, err := deployments.Apply(ctx, mine, metav1.ApplyOptions{FieldManager: "first"})
	if err != nil {
		return err
	}
	var names []string
	for _, env := range got.Spec.Template.Spec.Containers[0].Env {
		names = append(names, env.Name)
	}
	return same("variables and image", strings.Join(names, ",")+" "+got.Spec.Template.Spec.Containers[0].Image, "A registry.example/server:2")
}

func applyStatus(ctx context.Context, s *stage) error {
	volumes := s.client.CoreV1().PersistentVolumeClaims(s.namespace)
	claim := coreapply.PersistentVolumeClaim("hold", s.namespace).
		WithSpec(coreapply.PersistentVolumeClaimSpec().
			WithStorageClassName("none").
			WithAccessModes("ReadWriteOnce").
			WithResources(coreapply.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")})))
	if _, err := volumes.Apply(ctx, claim, metav1.ApplyOptions{FieldManager: "first"}); err != nil {
		return err
	}
	status := coreapply.PersistentVolumeClaim("hold", s.namespace).
		WithStatus(coreapply.PersistentVolumeClaimStatus().WithConditions(
			coreapply.PersistentVolumeClaimCondition().WithType("Resizing").WithStatus("True").WithReason("Tide")))
	got, err := volumes.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "teller"})
	if err != nil {
		return err
	}
	for _, entry := range got.ManagedFields {
		if entry.Manager == "teller" {
			return same("subresource and condition", entry.Subresource+" "+got.Status.Conditions[0].Reason, "status Tide")
		}
	}
	return fmt.Errorf("no manager named teller: %s", managers(got.ManagedFields))
}
