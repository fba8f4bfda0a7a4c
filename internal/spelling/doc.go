// Package spelling finds the name that somebody meant who wrote another one. It knows no names itself.
package spelling
