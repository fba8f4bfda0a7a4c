package htmlreport_test

import (
	"bytes"
	"fmt"
	"log"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate/htmlreport"
)

// A report becomes one page, which needs nothing else to be shown.
func ExampleWrite() {
	report := &v1alpha1.ScenarioReport{ObjectMeta: metav1.ObjectMeta{Name: "two-zones"}}
	report.Status = v1alpha1.ScenarioReportStatus{
		End:  metav1.Duration{Duration: time.Minute},
		Sets: [][]string{{"a", "b"}},
		Groups: []v1alpha1.GroupReport{
			{Name: "a", Zone: "x", Before: 1, After: 2,
				Sizes: []v1alpha1.GroupSize{{Target: 1, Ready: 1}, {At: metav1.Duration{Duration: time.Minute}, Target: 2, Ready: 1}}},
			{Name: "b", Zone: "y", Before: 1, After: 1, Ready: 1},
		},
		History: []v1alpha1.HistoryRow{{Running: 2, Nodes: 2}},
	}
	var page bytes.Buffer
	if err := htmlreport.Write(&page, []htmlreport.Result{{Report: report}}); err != nil {
		log.Fatal(err)
	}
	_, desc, _ := strings.Cut(page.String(), `<desc id="s1-nodes-1-d">`)
	desc, _, _ = strings.Cut(desc, "</desc>")
	fmt.Println(desc)
	// Output:
	// From 2 nodes at the start to 3 at the end, at most 3 after 1m. At the end: x 2, y 1.
}
