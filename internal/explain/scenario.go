package explain

import (
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/scaleup"
)

// OfGroups is the fleet of node groups as a round of the pipeline sees them. File
// is where they are from, for messages.
func OfGroups(file string, groups []scaleup.Group) *Fleet {
	fleet := &Fleet{Groups: map[string]cloudprovider.Template{}, file: title(file)}
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
		fleet.Notes = append(fleet.Notes, "all or nothing, so balanced with no other group: "+listed(alone, mostNames))
	}
	return fleet
}
