package passes

import "k8s.io/client-go/tools/cache"

// Follow reports of each change of a cache what an object was before, and what it is now; nil if there is
// none. Objects of other types are left out.
func Follow[T comparable](changed func(before, now T)) cache.ResourceEventHandler {
	as := func(o any) T {
		if last, unseen := o.(cache.DeletedFinalStateUnknown); unseen {
			o = last.Obj
		}
		t, _ := o.(T)
		return t
	}
	report := func(before, now any) {
		var none T
		if b, n := as(before), as(now); b != none || n != none {
			changed(b, n)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { report(nil, o) }, UpdateFunc: report, DeleteFunc: func(o any) { report(o, nil) },
	}
}
