// Package spelling finds the names that are most similar to a misspelt one, and writes numbers and
// lists into sentences. It contains no names itself.
package spelling
