// Package spelling finds the names that are most similar to a misspelt one. It contains no names
// itself.
package spelling
