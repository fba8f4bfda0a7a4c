package document

import (
	"reflect"
	"strings"
	"time"
)

// Latest is the latest time in objects, which is about when they were read: the zero time if there is none.
// When something will be gone or over does not count.
func Latest(objects ...any) (latest time.Time) {
	var see func(v reflect.Value)
	see = func(v reflect.Value) {
		switch kind := v.Kind(); {
		case v.Type() == reflect.TypeFor[time.Time]():
			if at := v.Interface().(time.Time); at.After(latest) {
				latest = at
			}
		case (kind == reflect.Pointer || kind == reflect.Interface) && !v.IsNil():
			see(v.Elem())
		case kind == reflect.Slice:
			for i := range v.Len() {
				see(v.Index(i))
			}
		case kind == reflect.Map:
			for _, value := range v.Seq2() {
				see(value)
			}
		case kind == reflect.Struct:
			for of, field := range v.Fields() {
				if of.IsExported() && of.Name != "DeletionTimestamp" && !strings.HasSuffix(of.Name, "Until") {
					see(field)
				}
			}
		}
	}
	see(reflect.ValueOf(objects))
	return latest
}
