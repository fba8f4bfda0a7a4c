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
