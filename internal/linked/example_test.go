package linked

import (
	"fmt"

	"k8s.io/utils/clock"
)

// An autoscaler asks to share six nodes among three similar groups.
func ExampleScaleUp() {
	journal := NewJournal(clock.RealClock{})
	grown, err := ScaleUp[*testGroup]{
		Groups: []*testGroup{{id: "b", size: 3, max: 9}, {id: "a", size: 1, max: 9}, {id: "c", size: 2, max: 3}},
		Asked:  6,
	}.Split(journal)
	if err != nil {
		fmt.Println(err)
	}
	for _, one := range grown {
		fmt.Println(one.Group.Id(), one.Size, "to", one.NewSize)
	}
	// Output:
	// b 3 to 5
	// a 1 to 4
	// c 2 to 3
}
