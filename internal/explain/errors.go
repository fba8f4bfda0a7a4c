package explain

import (
	"fmt"
	"strings"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// UnknownGroup is returned for a group that the fleet does not have.
type UnknownGroup struct {
	Name    string
	Nearest []string // groups with similar names, the most similar first; may be empty
	Groups  int      // how many groups the fleet has
}

func (e *UnknownGroup) Error() string {
	text := fmt.Sprintf("no node group %q among %s", e.Name, spelling.Count(e.Groups, "group"))
	if len(e.Nearest) == 0 {
		return text
	}
	return text + ", did you mean " + strings.Join(e.Nearest, " or ") + "?"
}
