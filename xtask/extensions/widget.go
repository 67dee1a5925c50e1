package main

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// The group of widgets; a run that was cut off leaves its definition behind.
const widgetGroup = "e2e.sendo.example"

// A Widget in the version that is stored.
type WidgetV1 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpecV1 `json:"spec,omitempty"`
}

type WidgetSpecV1 struct {
	Color string `json:"color,omitempty"`
	Size  int    `json:"size,omitempty"`
}

func (w *WidgetV1) DeepCopyObject() runtime.Object {
	out := *w
	out.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &out
}

// A Widget in the next version, which spells a field differently.
type WidgetV2 struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpecV2 `json:"spec,omitempty"`
}

type WidgetSpecV2 struct {
	Colour string `json:"colour,omitempty"`
	Size   int    `json:"size,omitempty"`
}

func (w *WidgetV2) DeepCopyObject() runtime.Object {
	out := *w
	out.ObjectMeta = *w.ObjectMeta.DeepCopy()
	return &out
}

func widgetVersion(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: widgetGroup, Version: version}
}

func addWidgets(scheme *runtime.Scheme) {
	scheme.AddKnownTypeWithName(widgetVersion("v1").WithKind("Widget"), &WidgetV1{})
	scheme.AddKnownTypeWithName(widgetVersion("v2").WithKind("Widget"), &WidgetV2{})
	metav1.AddToGroupVersion(scheme, widgetVersion("v1"))
	metav1.AddToGroupVersion(scheme, widgetVersion("v2"))
}

// What the webhooks decide about widgets.
type widgetRules struct{}

func (widgetRules) Default(ctx context.Context, widget *WidgetV1) error {
	if widget.Spec.Size == 0 {
		widget.Spec.Size = 3
	}
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	if widget.Annotations == nil {
		widget.Annotations = map[string]string{}
	}
	widget.Annotations["e2e.sendo.example/by"] = request.UserInfo.Username
	return nil
}

func (widgetRules) ValidateCreate(_ context.Context, widget *WidgetV1) (admission.Warnings, error) {
	if widget.Spec.Size > 10 {
		return nil, fmt.Errorf("a widget of size %d is too large", widget.Spec.Size)
	}
	if widget.Spec.Color == "beige" {
		return admission.Warnings{"beige is out of fashion"}, nil
	}
	return nil, nil
}

func (widgetRules) ValidateUpdate(_ context.Context, before, after *WidgetV1) (admission.Warnings, error) {
	if before.Spec.Color != after.Spec.Color {
		return nil, fmt.Errorf("the color stays %s", before.Spec.Color)
	}
	return nil, nil
}

func (widgetRules) ValidateDelete(_ context.Context, widget *WidgetV1) (admission.Warnings, error) {
	if widget.Annotations["keep"] == "true" {
		return nil, errors.New("it is to be kept")
	}
	return nil, nil
}

func toV2(_ context.Context, from *WidgetV1, to *WidgetV2) error {
	to.ObjectMeta = from.ObjectMeta
	to.Spec = WidgetSpecV2{Colour: from.Spec.Color, Size: from.Spec.Size}
	return nil
}

func fromV2(_ context.Context, from *WidgetV2, to *WidgetV1) error {
	to.ObjectMeta = from.ObjectMeta
	to.Spec = WidgetSpecV1{Color: from.Spec.Colour, Size: from.Spec.Size}
	return nil
}
