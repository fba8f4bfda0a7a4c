package members

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rules are all rights that the controllers need in a member: to write local objects and watch
// them, to watch pods, to identify the cluster, and to record events; in one with fixed nodes also to
// watch these.
func Rules(fixedNodes bool) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		{
			APIGroups: []string{appsv1.GroupName}, Resources: []string{"replicasets", "deployments"},
			Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
		},
		{APIGroups: []string{v1.GroupName}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{v1.GroupName}, Resources: []string{"namespaces"}, ResourceNames: []string{metav1.NamespaceSystem},
			Verbs: []string{"get"}},
		{APIGroups: []string{eventsv1.GroupName}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	if fixedNodes {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{v1.GroupName}, Resources: []string{"nodes"},
			Verbs: []string{"get", "list", "watch"}})
	}
	return rules
}
