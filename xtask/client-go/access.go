package main

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

var accessSteps = []step{
	{"a token of a service account says who its holder is", serviceAccount},
	{"what a role grants is allowed, and nothing else", granted},
	{"an administrator acts as somebody else", impersonates},
	{"a recorder writes events, the same ones counted", records},
}

func (s *stage) asServiceAccount(ctx context.Context) (*kubernetes.Clientset, error) {
	seconds := int64(600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := s.client.CoreV1().ServiceAccounts(s.namespace).CreateToken(ctx, "default", request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(s.config)
	config.BearerToken = token.Status.Token
	return kubernetes.NewForConfig(config)
}

func serviceAccount(ctx context.Context, s *stage) error {
	client, err := s.asServiceAccount(ctx)
	if err != nil {
		return err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return same("name", review.Status.UserInfo.Username, "system:serviceaccount:"+s.namespace+":default")
}

func granted(ctx context.Context, s *stage) error {
	client, err := s.asServiceAccount(ctx)
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("not forbidden: %v", err)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
	}
	if _, err := s.client.RbacV1().Roles(s.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reads"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: s.namespace}},
	}
	if _, err := s.client.RbacV1().RoleBindings(s.namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	err = eventually(ctx, func() error {
		_, err := client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("not forbidden: %v", err)
	}
	want := fmt.Sprintf(`secrets is forbidden: User "system:serviceaccount:%s:default" cannot list resource "secrets" in API group "" in the namespace "%s"`, s.namespace, s.namespace)
	return same("message", err.Error(), want)
}

func impersonates(ctx context.Context, s *stage) error {
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "ada", Groups: []string{"crew"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "delete", Resource: "pods"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		// Nobody but those who are somebody may ask for themselves.
		return same("forbidden", apierrors.IsForbidden(err), true)
	}
	return same("ada may delete pods", review.Status.Allowed, false)
}

func records(ctx context.Context, s *stage) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: s.client.CoreV1().Events(s.namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "e2e"})
	account, err := s.client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for range 3 {
		recorder.Event(account, corev1.EventTypeNormal, "Seen", "the account was seen")
	}
	return eventually(ctx, func() error {
		events, err := s.client.CoreV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Seen"})
		if err != nil {
			return err
		}
		if err := same("events", len(events.Items), 1); err != nil {
			return err
		}
		return same("count", events.Items[0].Count, 3)
	})
}
