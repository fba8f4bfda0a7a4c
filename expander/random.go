package expander

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

var random = Strategy{
	Name: "random",
	Help: "one of them by lot, the same one for the same seed",
	Doc: "Keeps one option, each with the same chance. The lot is drawn from the seed, the round and the names of the groups, " +
		"so a run can be repeated. Nothing may stand behind it in a chain.",
	Single: true,
	Filter: draw,
}

func draw(c Config, options []Option) []Result {
	results := make([]Result, len(options))
	if len(options) == 0 {
		return results
	}
	order := make([]int, len(options))
	for i := range order {
		order[i] = i
		results[i].Figure = "not drawn"
	}
	slices.SortFunc(order, func(a, b int) int { return byName(options[a], options[b]) })
	drawn := order[c.source(options, order).IntN(len(order))]
	results[drawn] = Result{Kept: true, Figure: "drawn from " + spelling.Count(len(options), "option")}
	return results
}

// source is keyed by everything the draw may depend on. A strong hash spreads
// neighbouring seeds and rounds, and IntN of its stream favours no option.
func (c Config) source(options []Option, order []int) *rand.Rand {
	key := binary.BigEndian.AppendUint64(nil, c.Seed)
	key = binary.BigEndian.AppendUint64(key, c.Round)
	for _, i := range order {
		key = append(key, options[i].Group...)
		key = append(key, 0)
	}
	return rand.New(rand.NewChaCha8(sha256.Sum256(key)))
}
