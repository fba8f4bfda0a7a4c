package spelling_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// A group that does not exist.
func ExampleNearest() {
	fmt.Println(spelling.Nearest("m5-lrage-a", []string{"c5-large-a", "m5-large-a", "m5-large-b"}))
	// Output:
	// [m5-large-a]
}

// The end of a sentence about nodes.
func ExampleList() {
	names := []string{"node-a", "node-b", "node-c"}
	fmt.Println(spelling.Count(len(names), "node"), spelling.Verb(len(names), "wait")+":", spelling.List(names, 2))
	// Output:
	// 3 nodes wait: node-a, node-b and 1 more
}
