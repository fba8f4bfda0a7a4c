package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/evenkeel/evenkeel/internal/page"
)

func ExampleHandler() {
	t, err := page.Parse(`{{template "head"}}<title>groups</title>{{names .Groups}}`, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	type state struct{ Groups []string }
	handler := page.Handler(t, func() state { return state{Groups: []string{"a", "b"}} })

	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/?format=json", http.NoBody))
	fmt.Print(answer.Body)
	// Output:
	// {
	//   "Groups": [
	//     "a",
	//     "b"
	//   ]
	// }
}
