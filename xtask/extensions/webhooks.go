package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

const webhookService = "widgets"

var webhookSteps = []step{
	{"a webhook server of controller-runtime is called through a Service", serveWebhooks},
	{"a defaulter sets what is left out", defaulterSetsSize},
	{"a validator refuses what is wrong, and warns", validatorRefuses},
	{"a validator compares an update with what was there", validatorCompares},
	{"a validator keeps an object from being deleted", validatorKeeps},
	{"a converter serves another version", converterServes},
	{"a converter takes writes in another version", converterTakesWrites},
	{"a watch in another version sees conversions", converterWatches},
}

// The warnings that answers carried.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) has(text string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Contains(w.texts, text)
}

// Runs the webhooks, and has the cluster call them.
func serveWebhooks(ctx context.Context, s *stage) error {
	port, err := s.freePort()
	if err != nil {
		return err
	}
	folder := filepath.Join(s.folder, "webhooks")
	bundle, err := serviceCertificate(folder, webhookService+"."+s.namespace+".svc")
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(s.config, ctrl.Options{
		Scheme:                 s.scheme,
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		WebhookServer:          webhook.NewServer(webhook.Options{Host: s.host(), Port: int(port), CertDir: folder}),
	})
	if err != nil {
		return err
	}
	converter := conversion.NewHubSpokeConverter(&WidgetV1{}, conversion.NewSpokeConverter(&WidgetV2{}, toV2, fromV2))
	err = ctrl.NewWebhookManagedBy(manager, &WidgetV1{}).
		WithDefaulter(widgetRules{}).
		WithValidator(widgetRules{}).
		WithConverter(converter).
		Complete()
	if err != nil {
		return err
	}
	// It ends with this program.
	go func() { _ = manager.Start(ctx) }()
	if err := s.expose(ctx, webhookService, port); err != nil {
		return err
	}
	port = s.servicePort(port)
	if err := s.defineWidgets(ctx, bundle, port); err != nil {
		return err
	}
	if err := s.configureWebhooks(ctx, bundle, port); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		probe := widget(s, "probe")
		probe.Spec.Size = 11
		err := s.client.Create(ctx, probe, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "too large") {
			return fmt.Errorf("the validator does not answer: %v", err)
		}
		return nil
	})
}

func (s *stage) defineWidgets(ctx context.Context, bundle []byte, port int32) error {
	path := "/convert"
	version := func(name, field string) apiextensionsv1.CustomResourceDefinitionVersion {
		spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			field:  {Type: "string"},
			"size": {Type: "integer"},
		}}
		schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec}}
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: name == "v1",
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
		}
	}
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + widgetGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group:    widgetGroup,
			Scope:    apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", "color"), version("v2", "colour")},
			Conversion: &apiextensionsv1.CustomResourceConversion{
				Strategy: apiextensionsv1.WebhookConverter,
				Webhook: &apiextensionsv1.WebhookConversion{
					ConversionReviewVersions: []string{"v1"},
					ClientConfig: &apiextensionsv1.WebhookClientConfig{
						Service:  &apiextensionsv1.ServiceReference{Namespace: s.namespace, Name: webhookService, Path: &path, Port: &port},
						CABundle: bundle,
					},
				},
			},
		},
	}
	if err := s.client.Create(ctx, definition); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "none"}, &WidgetV1{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("widgets are not served: %v", err)
	})
}

func (s *stage) configureWebhooks(ctx context.Context, bundle []byte, port int32) error {
	clientConfig := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{
			Service:  &admissionv1.ServiceReference{Namespace: s.namespace, Name: webhookService, Path: &path, Port: &port},
			CABundle: bundle,
		}
	}
	rules := func(operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: operations,
			Rule:       admissionv1.Rule{APIGroups: []string{widgetGroup}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}},
		}}
	}
	none := admissionv1.SideEffectClassNone
	of := metav1.ObjectMeta{Name: "widgets." + s.namespace}
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: of, Webhooks: []admissionv1.MutatingWebhook{{
		Name: "default.widgets." + widgetGroup, ClientConfig: clientConfig("/mutate-e2e-sendo-example-v1-widget"),
		Rules: rules(admissionv1.Create, admissionv1.Update), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: of, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "validate.widgets." + widgetGroup, ClientConfig: clientConfig("/validate-e2e-sendo-example-v1-widget"),
		Rules: rules(admissionv1.Create, admissionv1.Update, admissionv1.Delete), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
	}}}
	if err := s.client.Create(ctx, mutating); err != nil {
		return err
	}
	return s.client.Create(ctx, validating)
}

func widget(s *stage, name string) *WidgetV1 {
	return &WidgetV1{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, Spec: WidgetSpecV1{Color: "red"}}
}

func defaulterSetsSize(ctx context.Context, s *stage) error {
	own := widget(s, "a")
	if err := s.client.Create(ctx, own); err != nil {
		return err
	}
	if err := same("size", own.Spec.Size, 3); err != nil {
		return err
	}
	return same("the user of the review", own.Annotations["e2e.sendo.example/by"], "kubernetes-admin")
}

func validatorRefuses(ctx context.Context, s *stage) error {
	large := widget(s, "large")
	large.Spec.Size = 11
	want := `admission webhook "validate.widgets.e2e.sendo.example" denied the request: a widget of size 11 is too large`
	if err := refused(s.client.Create(ctx, large), want); err != nil {
		return err
	}
	heard := &warnings{}
	config := rest.CopyConfig(s.config)
	config.WarningHandler = heard
	listening, err := client.New(config, client.Options{Scheme: s.scheme})
	if err != nil {
		return err
	}
	beige := widget(s, "beige")
	beige.Spec.Color = "beige"
	if err := listening.Create(ctx, beige); err != nil {
		return err
	}
	if !heard.has("beige is out of fashion") {
		return fmt.Errorf("no such warning among %q", heard.texts)
	}
	return nil
}

func validatorCompares(ctx context.Context, s *stage) error {
	own := &WidgetV1{}
	key := client.ObjectKey{Namespace: s.namespace, Name: "a"}
	if err := s.client.Get(ctx, key, own); err != nil {
		return err
	}
	own.Spec.Color = "blue"
	if err := refused(s.client.Update(ctx, own), "denied the request: the color stays red"); err != nil {
		return err
	}
	own.Spec.Color, own.Spec.Size = "red", 4
	return s.client.Update(ctx, own)
}

func validatorKeeps(ctx context.Context, s *stage) error {
	kept := widget(s, "kept")
	kept.Annotations = map[string]string{"keep": "true"}
	if err := s.client.Create(ctx, kept); err != nil {
		return err
	}
	if err := refused(s.client.Delete(ctx, kept), "denied the request: it is to be kept"); err != nil {
		return err
	}
	kept.Annotations["keep"] = "false"
	if err := s.client.Update(ctx, kept); err != nil {
		return err
	}
	return s.client.Delete(ctx, kept)
}

func converterServes(ctx context.Context, s *stage) error {
	own := &WidgetV2{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "a"}, own); err != nil {
		return err
	}
	if err := same("colour", own.Spec.Colour, "red"); err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(widgetVersion("v2").WithKind("WidgetList"))
	if err := s.client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	for _, item := range list.Items {
		if _, found, _ := unstructured.NestedString(item.Object, "spec", "colour"); !found {
			return fmt.Errorf("%s has no colour in version v2: %v", item.GetName(), item.Object)
		}
	}
	return same("widgets in version v2", len(list.Items), 2)
}

func converterTakesWrites(ctx context.Context, s *stage) error {
	second := &WidgetV2{ObjectMeta: metav1.ObjectMeta{Name: "second", Namespace: s.namespace}, Spec: WidgetSpecV2{Colour: "green"}}
	if err := s.client.Create(ctx, second); err != nil {
		return err
	}
	// The webhooks are for version v1, and are asked nevertheless.
	if err := same("size", second.Spec.Size, 3); err != nil {
		return err
	}
	stored := &WidgetV1{}
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(second), stored); err != nil {
		return err
	}
	if err := same("color", stored.Spec.Color, "green"); err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"colour": "blue"}}`))
	return refused(s.client.Patch(ctx, second, patch), "denied the request: the color stays green")
}

func converterWatches(ctx context.Context, s *stage) error {
	watching, err := client.NewWithWatch(s.config, client.Options{Scheme: s.scheme})
	if err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(widgetVersion("v2").WithKind("WidgetList"))
	watch, err := watching.Watch(ctx, list, client.InNamespace(s.namespace))
	if err != nil {
		return err
	}
	defer watch.Stop()
	third := widget(s, "third")
	third.Spec.Color = "violet"
	if err := s.client.Create(ctx, third); err != nil {
		return err
	}
	for event := range watch.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s: %v", event.Type, event.Object)
		}
		if object.GetName() != "third" {
			continue
		}
		colour, _, _ := unstructured.NestedString(object.Object, "spec", "colour")
		return same("colour", colour, "violet")
	}
	return fmt.Errorf("the watch ended")
}

// An error unless err is a refusal with this text.
func refused(err error, text string) error {
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("got %v, want a refusal with %q", err, text)
	}
	return nil
}
