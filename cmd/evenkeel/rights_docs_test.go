package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestDocumentedRights: the table of rights on the page of a server has what the manifests grant to its service account,
// no more and no less. What a right is for is written by hand.
func TestDocumentedRights(t *testing.T) {
	inRoot(t)
	for page, manifests := range map[string][]string{
		"docs/controller.md": {"configs/controller/rbac/*.yaml", "configs/controller/deploy/cluster-role-binding.yaml"},
		"docs/expander.md":   {"configs/expander/rbac/*.yaml", "configs/expander/count-nodes/*.yaml"},
		"docs/provider.md":   {"configs/sidecar/rbac/sidecar.yaml", "configs/sidecar/rbac/metrics.yaml", "configs/sidecar/pod-conditions/*.yaml"},
	} {
		if diff := cmp.Diff(grantedRights(t, manifests), documentedRights(readPage(t, page))); diff != "" {
			t.Errorf("%s: the table of rights is not that of the manifests (-manifests +page):\n%s", page, diff)
		}
	}
}

// rights are the sorted verbs for each resource, with the place where they hold.
type rights map[string][]string

func (r rights) add(resource, where string, verbs ...string) {
	key := resource + " | " + where
	r[key] = slices.Compact(slices.Sorted(slices.Values(append(r[key], verbs...))))
}

// rbacObject has the fields of roles and of bindings.
type rbacObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Rules    []rbacv1.PolicyRule `json:"rules"`
	RoleRef  rbacv1.RoleRef      `json:"roleRef"`
	Subjects []rbacv1.Subject    `json:"subjects"`
}

// grantedRights reads what roles grant that are bound to a service account.
func grantedRights(t *testing.T, patterns []string) rights {
	roles := map[string][]rbacv1.PolicyRule{"system:auth-delegator": { // of Kubernetes
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
	}}
	var bindings []rbacObject
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var o rbacObject
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatal(name, err)
				}
				if roles[o.Namespace+o.Name] = append(roles[o.Namespace+o.Name], o.Rules...); len(o.Subjects) > 0 {
					bindings = append(bindings, o)
				}
			}
		}
	}
	granted := rights{}
	for _, b := range bindings {
		where := "cluster"
		if b.Namespace != "" {
			where = "`" + b.Namespace + "`"
		}
		for _, rule := range roles[b.Namespace+b.RoleRef.Name] {
			place := where
			if len(rule.ResourceNames) > 0 {
				place += ": `" + strings.Join(rule.ResourceNames, "`, `") + "`"
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					name, sub, isSub := strings.Cut(resource, "/")
					if group != "" {
						name += "." + group
					}
					if isSub {
						name += "/" + sub
					}
					granted.add(name, place, rule.Verbs...)
				}
			}
		}
	}
	return granted
}

// documentedRights reads a table with the columns resource, rights and where.
func documentedRights(p *page) rights {
	documented := rights{}
	at := slices.IndexFunc(p.lines, func(line string) bool { return strings.HasPrefix(line, "| resource | rights | where |") })
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, line := range p.lines[max(at+2, 0):] {
		cells := strings.Split(line, " | ")
		if at < 0 || len(cells) < 4 {
			break
		}
		for _, resource := range quoted.FindAllStringSubmatch(cells[0], -1) {
			documented.add(resource[1], cells[2], strings.Split(cells[1], ", ")...)
		}
	}
	return documented
}
