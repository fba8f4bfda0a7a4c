package subsets_test

import (
	"fmt"
	"log"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/subsets"
)

// A dump is read, and each pod says in which subset it is.
func Example() {
	files, err := document.Scan([]string{"../../configs/examples/workload-spread-dump.yaml"}, document.Stdin(nil),
		document.Options{Kinds: document.Kinds{v1alpha1.WorkloadSpread{}}})
	if err != nil {
		log.Fatal(err)
	}
	d, err := subsets.Of(files)
	if err != nil {
		log.Fatal(err)
	}
	all, err := d.Explain()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range all[0].Status.Pods {
		fmt.Println(p.Name, p.Subset, p.From)
	}
	// Output:
	// web-5d9f-2xk7m reserved Annotation
	// web-5d9f-9bqzt reserved Annotation
	// web-5d9f-fk4wd spot Annotation
	// web-5d9f-h8c2n spot Annotation
	// web-5d9f-pm6vs on-demand Annotation
	// web-5d9f-zt3qj on-demand Node
}
