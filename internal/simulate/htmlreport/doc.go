// Package htmlreport shows the results of scenarios as one HTML page: sizes, waits, unevenness and
// cost over time, faults, and each scale-up with its reasons.
//
// The page is self-contained: it loads nothing, runs no script, follows the reader's light or dark
// theme, and can be printed. The package only renders the given reports. It knows neither files nor
// how a scenario is played.
package htmlreport
