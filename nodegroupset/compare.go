package nodegroupset

// Compare explains two groups: every difference and what would make them similar.
// The Remedy of groups that are similar already is empty. For names the index
// does not know the answer has nothing but the names.
func (x *Index) Compare(left, right string) Miss {
	out := Miss{Pair: Pair{Left: left, Right: right}}
	if x.groups[left] == nil || x.groups[right] == nil {
		return out
	}
	e := explainer{index: x, whatIf: newWhatIf(x), sets: x.Sets()}
	out = e.miss(left, right)
	if len(out.Differences) == 0 {
		out.Remedy = Remedy{}
	}
	return out
}

// miss compares two groups the index knows.
func (e *explainer) miss(left, right string) Miss {
	out := Miss{Pair: Pair{left, right, e.index.Differences(left, right)}}
	switch r := e.index.rule.(type) {
	case *fullRule:
		out.Remedy = e.fullRemedy(r.remedy(e.index.groups[left], e.index.groups[right]))
		stock, byDefault := e.under(newStockRule(e.index.Cloud, changes{}), nil)
		out.Stock = e.stockRemedy(stockTally(stock, left, right), byDefault)
	case *chosenLabelsRule:
		out.Remedy = e.labelRemedy(r, left, right)
		out.Stock = out.Remedy
	}
	return out
}
