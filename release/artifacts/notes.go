package artifacts

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/evenkeel/evenkeel/release/bill"
)

// relative finds links to files of the source.
var relative = regexp.MustCompile(`\]\(((?:docs|configs)/|[A-Z]+\.md)`)

// Notes returns the section of the changelog for a version. A release must have one; for a release candidate, or a commit without a tag,
// the section Unreleased is enough. Links to files lead to those of the version.
func Notes(changelog, version string) (string, error) {
	sections := map[string]string{}
	for _, section := range strings.Split("\n"+changelog, "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		name, _, _ := strings.Cut(title, " ") // a date may follow
		sections[name] = relative.ReplaceAllString(strings.TrimSpace(text), "]("+bill.Source+"/blob/"+version+"/${1}") + "\n"
	}
	if text, ok := sections[version]; ok {
		return text, nil
	}
	text, ok := sections["Unreleased"]
	if parts := releaseVersion.FindStringSubmatch(version); !ok || parts != nil && parts[4] == "" {
		return "", fmt.Errorf("CHANGELOG.md has no section ## %s", version)
	}
	return text, nil
}
