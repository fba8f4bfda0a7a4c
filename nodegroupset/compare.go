package nodegroupset

// Compare explains two groups: every difference and what would make them similar.
// The Remedy of groups that are similar already is empty. For names the index
// does not know the answer has nothing but the names.
func (x *Index) Compare(left, right string) Miss {
	out := Miss{Pair: Pair{Left: left, Right: right}}
	if x.groups[left] == nil || x.groups[right] == nil {
		return out
	}
	out = newExplainer(x).miss(left, right)
	if len(out.Differences) == 0 {
		out.Remedy = Remedy{}
	}
	return out
}

// miss compares two groups the index knows.
func (e *explainer) miss(left, right string) Miss {
	out := Miss{Pair: Pair{left, right, e.index.Differences(left, right)}}
	if e.index.rule.kind == chosenLabelsRule {
		out.Remedy = e.labelRemedy(left, right)
		out.Stock = out.Remedy
		return out
	}
	out.Remedy = e.fullRemedy(e.index.remedy(left, right))
	out.Stock = e.stockRemedy(e.stock().index.remedy(left, right))
	return out
}
