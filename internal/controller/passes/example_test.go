package passes_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

func Example() {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	fmt.Println(passes.At(now, time.Time{}, now.Add(time.Hour), now.Add(time.Minute)).RequeueAfter)
	fmt.Println(passes.At(now, now.Add(-time.Hour)).RequeueAfter, passes.At(now, time.Time{}).RequeueAfter)
	fmt.Println(passes.ResultOf(nil), passes.ResultOf(errors.New("no answer")))
	// Output:
	// 1m0s
	// 1ms 0s
	// success failure
}
