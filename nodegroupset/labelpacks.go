package nodegroupset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/configs/labelpacks"
)

// Pack is a named list of label keys that never make two groups different.
type Pack struct {
	Name   string     `json:"name"`
	About  string     `json:"about,omitempty"`
	Labels []string   `json:"labels"`          // ignored everywhere
	Cloud  *CloudPack `json:"cloud,omitempty"` // ignored where the cloud shows
}

// CloudPack says how a cloud shows, and lists label keys too general to be
// ignored on the nodes of any other. A node is of the cloud whose scheme its
// providerID has. Where the providerID is missing or has the scheme of no cloud
// of the packs, a label with one of the prefixes decides.
type CloudPack struct {
	Schemes  []string `json:"schemes"`
	Prefixes []string `json:"prefixes"`
	Labels   []string `json:"labels,omitempty"`
}

// Alias makes a deprecated label key count as its current name.
type Alias struct {
	Deprecated string `json:"deprecated"`
	Current    string `json:"current"`
}

// LabelPacks is everything the shipped data says about labels.
type LabelPacks struct {
	Packs      []Pack   `json:"packs"`
	Aliases    []Alias  `json:"aliases,omitempty"`
	Meaningful []string `json:"meaningful,omitempty"` // in no pack and never proposed
	// MeaningfulWords make every key meaningful whose name contains one of them;
	// see HasMeaning.
	MeaningfulWords []string `json:"meaningfulWords,omitempty"`
}

// HasMeaning reports whether a label says how capacity is bought or what it may be
// used for. A word counts wherever it is in the key's name: without the prefix,
// in lower case, and without punctuation.
func (l LabelPacks) HasMeaning(key string) bool {
	if slices.Contains(l.Meaningful, key) {
		return true
	}
	name := punctuation.Replace(strings.ToLower(key[strings.LastIndexByte(key, '/')+1:]))
	return slices.ContainsFunc(l.MeaningfulWords, func(word string) bool { return strings.Contains(name, word) })
}

var punctuation = strings.NewReplacer("-", "", "_", "", ".", "")

var shippedPacks = sync.OnceValues(func() (LabelPacks, error) {
	return ParseLabelPacks([]byte(labelpacks.YAML()))
})

// ShippedPacks returns the label packs of the product, in their order. Callers
// must not change them.
func ShippedPacks() (LabelPacks, error) { return shippedPacks() }

// ParseLabelPacks reads label packs from YAML. Unknown fields, empty or repeated
// names, words and keys, keys that are meaningful, and chains of aliases are refused.
func ParseLabelPacks(data []byte) (LabelPacks, error) {
	var packs LabelPacks
	if err := yaml.UnmarshalStrict(data, &packs); err != nil {
		return LabelPacks{}, fmt.Errorf("label packs: %w", err)
	}
	if err := packs.check(); err != nil {
		return LabelPacks{}, fmt.Errorf("label packs: %w", err)
	}
	return packs, nil
}

func (l LabelPacks) check() error {
	names, keys := words{}, words{}
	if err := cmp.Or(keys.addAll("meaningful", l.Meaningful), words{}.addAll("meaningfulWords", l.MeaningfulWords)); err != nil {
		return err
	}
	for i, pack := range l.Packs {
		path := fmt.Sprintf("packs[%d]", i)
		if wrong := names.add(pack.Name); wrong != "" {
			return apportion.Invalid(path+".name", pack.Name, wrong)
		}
		if err := l.addKeys(keys, path+".labels", pack.Labels); err != nil {
			return err
		}
		if pack.Cloud == nil {
			continue
		}
		if err := cmp.Or(
			l.addKeys(keys, path+".cloud.labels", pack.Cloud.Labels),
			words{}.addAll(path+".cloud.schemes", pack.Cloud.Schemes),
			words{}.addAll(path+".cloud.prefixes", pack.Cloud.Prefixes),
		); err != nil {
			return err
		}
	}
	seen := words{} // every key is in one alias only, so that their order cannot matter
	for i, alias := range l.Aliases {
		if err := seen.addAll(fmt.Sprintf("aliases[%d]", i), []string{alias.Deprecated, alias.Current}); err != nil {
			return err
		}
	}
	return nil
}

// addKeys refuses keys of a pack that are meaningful by one of the words.
func (l LabelPacks) addKeys(keys words, path string, list []string) error {
	if err := keys.addAll(path, list); err != nil {
		return err
	}
	if i := slices.IndexFunc(list, l.HasMeaning); i >= 0 {
		return apportion.Invalid(fmt.Sprintf("%s[%d]", path, i), list[i], "says how capacity is bought or what it may be used for")
	}
	return nil
}

// words refuses empty and repeated words.
type words map[string]bool

// add says what is wrong with a further word, and nothing if it is fine.
func (w words) add(word string) (wrong string) {
	switch {
	case strings.TrimSpace(word) == "":
		return "must not be empty"
	case w[word]:
		return "is listed twice"
	}
	w[word] = true
	return ""
}

func (w words) addAll(path string, list []string) error {
	for i, word := range list {
		if wrong := w.add(word); wrong != "" {
			return apportion.Invalid(fmt.Sprintf("%s[%d]", path, i), word, wrong)
		}
	}
	return nil
}
