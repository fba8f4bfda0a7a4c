package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// kubectl does what the commands of docs/balancer.md do, and prints what they print. It knows no others: kubectl itself
// would be one more program to build.
type kubectl struct {
	client.Client
	config    *rest.Config
	namespace string
	root      string // what the paths of files begin at
}

// kinds are what may be named, by the names that are used.
var kinds = map[string]struct {
	kind     schema.GroupVersionKind
	resource string
}{
	"bal":      {schema.GroupVersionKind{Group: "evenkeel.dev", Version: "v1alpha1", Kind: "Balancer"}, "balancers"},
	"balancer": {schema.GroupVersionKind{Group: "evenkeel.dev", Version: "v1alpha1", Kind: "Balancer"}, "balancers"},
	"deploy":   {schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments"},
	"hpa":      {schema.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, "horizontalpodautoscalers"},
}

// run runs a command line and returns what it prints.
func (k *kubectl) run(ctx context.Context, line string) ([]string, error) {
	words, err := split(line)
	if err != nil {
		return nil, err
	}
	commands := map[string]func(context.Context, *arguments) ([]string, error){
		"apply": k.apply, "get": k.get, "scale": k.scale, "patch": k.patch, "taint": k.taint, "events": k.events,
	}
	if len(words) < 2 || words[0] != "kubectl" || commands[words[1]] == nil {
		return nil, fmt.Errorf("%s: only %v are known", line, slices.Sorted(maps.Keys(commands)))
	}
	args := parseArguments(words[2:])
	out, err := commands[words[1]](ctx, args)
	if err == nil && len(args.flags) > 0 {
		err = fmt.Errorf("flags %v are not known", args.flags)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return out, nil
}

// split cuts a command line into words; blanks inside single quotes are part of a word.
func split(line string) ([]string, error) {
	parts := strings.Split(line, "'")
	if len(parts)%2 == 0 {
		return nil, errors.New("a quote is not closed")
	}
	for i := range parts {
		if i%2 == 1 {
			parts[i] = strings.ReplaceAll(parts[i], " ", "\x00")
		}
	}
	words := strings.Fields(strings.Join(parts, ""))
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "\x00", " ")
	}
	return words, nil
}

// arguments are what follows the command.
type arguments struct {
	words []string
	flags map[string]string
}

// parseArguments takes --flag=value and -f value.
func parseArguments(words []string) *arguments {
	a := &arguments{flags: map[string]string{}}
	for i := 0; i < len(words); i++ {
		name, value, found := strings.Cut(words[i], "=")
		switch {
		case strings.HasPrefix(words[i], "--") && found:
			a.flags[name] = value
		case strings.HasPrefix(words[i], "-") && i+1 < len(words):
			a.flags[words[i]] = words[i+1]
			i++
		default:
			a.words = append(a.words, words[i])
		}
	}
	return a
}

// flag takes the value of a flag; empty if it was not given.
func (a *arguments) flag(name string) string {
	value := a.flags[name]
	delete(a.flags, name)
	return value
}

// object is what kind/name, or kind and name, refer to.
func (k *kubectl) object(words ...string) (*unstructured.Unstructured, error) {
	if len(words) == 1 {
		words = strings.Split(words[0], "/")
	}
	if len(words) != 2 || kinds[words[0]].resource == "" {
		return nil, fmt.Errorf("%v is no kind and name", words)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kinds[words[0]].kind)
	o.SetNamespace(k.namespace)
	o.SetName(words[1])
	return o, nil
}

// call is what an object is called in what is printed.
func call(kind schema.GroupVersionKind, name string) string {
	return strings.ToLower(kind.GroupKind().String()) + "/" + name
}

func (k *kubectl) apply(ctx context.Context, args *arguments) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(k.root, args.flag("-f")))
	if err != nil {
		return nil, err
	}
	var out []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			return nil, err
		}
		o.SetNamespace(k.namespace)
		before, verb := o.DeepCopy(), "configured"
		switch err := k.Get(ctx, client.ObjectKeyFromObject(o), before); {
		case apierrors.IsNotFound(err):
			verb = "created"
		case err != nil:
			return nil, err
		}
		if err := k.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("kubectl"), client.ForceOwnership); err != nil {
			return nil, err
		}
		if before.GetUID() == o.GetUID() && before.GetGeneration() == o.GetGeneration() {
			verb = "unchanged"
		}
		out = append(out, call(o.GroupVersionKind(), o.GetName())+" "+verb)
	}
	return out, nil
}

func (k *kubectl) get(ctx context.Context, args *arguments) ([]string, error) {
	if form := args.flag("-o"); form != "" {
		return k.path(ctx, args, form)
	}
	if len(args.words) != 1 {
		return nil, errors.New("one list of kinds is wanted")
	}
	var out []string
	for i, name := range strings.Split(args.words[0], ",") {
		lines, err := k.table(ctx, name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, "")
		}
		out = append(out, lines...)
	}
	return out, nil
}

// path prints what a jsonpath finds in an object.
func (k *kubectl) path(ctx context.Context, args *arguments, form string) ([]string, error) {
	o, err := k.object(args.words...)
	if err != nil {
		return nil, err
	}
	if err := k.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return nil, err
	}
	template, ok := strings.CutPrefix(form, "jsonpath=")
	if !ok {
		return nil, fmt.Errorf("-o %s is not known", form)
	}
	path := jsonpath.New("out")
	if err := path.Parse(template); err != nil {
		return nil, err
	}
	var out strings.Builder
	if err := path.Execute(&out, o.Object); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), nil
}

// table prints the objects of a kind as the API server has them printed. With others beside them, their names tell the kind.
func (k *kubectl) table(ctx context.Context, name string) ([]string, error) {
	kind, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("kind %s is not known", name)
	}
	web, err := rest.HTTPClientFor(k.config)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s/apis/%s/namespaces/%s/%s", k.config.Host, kind.kind.GroupVersion(), k.namespace, kind.resource)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	response, err := web.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil {
		return nil, fmt.Errorf("%w in %s", err, text)
	}
	var rows [][]string
	var head []string
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			head = append(head, strings.ToUpper(column.Name))
		}
	}
	rows = append(rows, head)
	for _, row := range table.Rows {
		cells := []string{call(kind.kind, fmt.Sprint(row.Cells[0]))}
		for i, cell := range row.Cells[1:] {
			if table.ColumnDefinitions[i+1].Priority == 0 {
				cells = append(cells, fmt.Sprint(cell))
			}
		}
		rows = append(rows, cells)
	}
	return aligned(rows)
}

func aligned(rows [][]string) ([]string, error) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 6, 4, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), nil
}

func (k *kubectl) scale(ctx context.Context, args *arguments) ([]string, error) {
	o, err := k.object(args.words...)
	if err != nil {
		return nil, err
	}
	patch := fmt.Sprintf(`{"spec":{"replicas":%s}}`, args.flag("--replicas"))
	if err := k.SubResource("scale").Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return nil, err
	}
	return []string{call(o.GroupVersionKind(), o.GetName()) + " scaled"}, nil
}

func (k *kubectl) patch(ctx context.Context, args *arguments) ([]string, error) {
	o, err := k.object(args.words...)
	if err != nil {
		return nil, err
	}
	if kind := args.flag("--type"); kind != "json" {
		return nil, fmt.Errorf("patches of type %q are not known", kind)
	}
	if err := k.Patch(ctx, o, client.RawPatch(types.JSONPatchType, []byte(args.flag("--patch")))); err != nil {
		return nil, err
	}
	return []string{call(o.GroupVersionKind(), o.GetName()) + " patched"}, nil
}

// taint taints nodes, or takes a taint off them if what is asked for ends in a dash.
func (k *kubectl) taint(ctx context.Context, args *arguments) ([]string, error) {
	selector, err := labels.Parse(args.flag("-l"))
	if err != nil {
		return nil, err
	}
	var list v1.NodeList
	if err := k.List(ctx, &list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	what, names := args.words[len(args.words)-1], args.words[1:len(args.words)-1]
	var out []string
	for _, n := range list.Items {
		if len(names) > 0 && !slices.Contains(names, n.Name) {
			continue
		}
		before := client.StrategicMergeFrom(n.DeepCopy())
		verb := "tainted"
		if key, off := strings.CutSuffix(what, "-"); off {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == key })
			verb = "untainted"
		} else {
			key, rest, _ := strings.Cut(what, "=")
			value, effect, _ := strings.Cut(rest, ":")
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
		}
		if err := k.Patch(ctx, &n, before); err != nil {
			return nil, err
		}
		out = append(out, "node/"+n.Name+" "+verb)
	}
	return out, nil
}

func (k *kubectl) events(ctx context.Context, args *arguments) ([]string, error) {
	about, err := k.object(args.flag("--for"))
	if err != nil {
		return nil, err
	}
	var list eventsv1.EventList
	if err := k.List(ctx, &list, client.InNamespace(k.namespace)); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	rows := [][]string{{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}}
	for _, e := range list.Items {
		if e.Regarding.Kind != about.GetKind() || e.Regarding.Name != about.GetName() {
			continue
		}
		seen := duration.HumanDuration(time.Since(e.EventTime.Time))
		if s := e.Series; s != nil {
			seen = fmt.Sprintf("%s (x%d over %s)", duration.HumanDuration(time.Since(s.LastObservedTime.Time)), s.Count, seen)
		}
		rows = append(rows, []string{seen, e.Type, e.Reason, e.Regarding.Kind + "/" + e.Regarding.Name, e.Note})
	}
	return aligned(rows)
}
