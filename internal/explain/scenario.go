package explain

import (
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Observed is a node group as a round of the pipeline sees it.
type Observed struct {
	ID           string
	Template     *cloudprovider.Template // nil if neither a node nor the cloud gives one
	AllOrNothing bool                    // either empty or at its maximum
	Err          error                   // what could not be read
}

// OfGroups is the fleet of node groups that are read from a file, which messages name.
func OfGroups(file string, groups []Observed) *Fleet {
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: document.Title(file)}
	var alone []string
	for _, g := range groups {
		switch {
		case g.Err != nil:
			fleet.Notes = append(fleet.Notes, fmt.Sprintf("left out: %s: %v", g.ID, g.Err))
			continue
		case g.Template == nil:
			fleet.Notes = append(fleet.Notes, fmt.Sprintf("left out: %s: no template", g.ID))
			continue
		case g.AllOrNothing:
			alone = append(alone, g.ID)
		}
		fleet.Groups[g.ID] = *g.Template
	}
	if len(alone) > 0 {
		fleet.Notes = append(fleet.Notes, "all or nothing, so balanced with no other group: "+spelling.List(alone, mostNames))
	}
	return fleet
}
