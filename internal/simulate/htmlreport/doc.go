// Package htmlreport shows what came of scenarios as one page for a browser: how
// sizes, waits, unevenness and cost went over time, what went wrong meanwhile, and
// why each scale-up was as it was.
//
// The page is complete in itself: it loads nothing, runs no script, follows the
// reader's light or dark theme, and can be printed. The package only draws reports
// that it is given. It knows neither how a scenario is played nor files.
package htmlreport
