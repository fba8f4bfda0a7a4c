package zonemarks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/evenkeel/evenkeel/internal/followed"
)

// The ConfigMap, unless told otherwise.
const (
	DefaultNamespace = "kube-system"
	DefaultConfigMap = "evenkeel-zonal-shift"
)

// Key is where a ConfigMap has the text.
const Key = "zonal-shift.yaml"

// Store is where a text is kept. The methods may be called by several goroutines.
type Store interface {
	// String says where that is, for messages.
	String() string
	// Load returns the text; nil if there is none.
	Load(ctx context.Context) ([]byte, error)
	// Change replaces the text by what a function makes of it. Where somebody else has changed it
	// meanwhile, it fails or calls the function again; nobody's change is lost in a ConfigMap.
	Change(ctx context.Context, change func(text []byte) ([]byte, error)) error
}

// File is a Store in a file, which need not be there; its folder must.
type File struct{ Path string }

func (f File) String() string { return f.Path }

// Load implements Store.
func (f File) Load(context.Context) ([]byte, error) {
	text, err := followed.Read(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(f.Path))
		return nil, err
	}
	return text, err
}

// Change implements Store. A reader sees the old text or the new one, never a part.
func (f File) Change(ctx context.Context, change func(text []byte) ([]byte, error)) error {
	text, err := f.Load(ctx)
	if err != nil {
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(f.Path), filepath.Base(f.Path)+".*")
	if err != nil {
		return &fs.PathError{Op: "write", Path: f.Path, Err: errors.Unwrap(err)}
	}
	defer os.Remove(fresh.Name()) // it is not there any more if all went well
	_, err = fresh.Write(text)
	if err == nil {
		err = fresh.Chmod(0o644) // the sidecar may run as another user, and there is no secret in it
	}
	if err == nil {
		err = fresh.Sync()
	}
	if err := errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), f.Path)
}

// ConfigMap is a Store in a ConfigMap, which is created if it is not there.
type ConfigMap struct {
	Client          kubernetes.Interface
	Namespace, Name string
}

func (c ConfigMap) String() string { return fmt.Sprintf("ConfigMap %s/%s", c.Namespace, c.Name) }

// Load implements Store. It needs the right to get this one ConfigMap.
func (c ConfigMap) Load(ctx context.Context) ([]byte, error) {
	object, err := c.get(ctx)
	if object == nil || err != nil {
		return nil, err
	}
	return textOf(object), nil
}

func (c ConfigMap) get(ctx context.Context) (*v1.ConfigMap, error) {
	object, err := c.Client.CoreV1().ConfigMaps(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // nothing was ever shifted away
	case err != nil:
		return nil, c.explained("get", err)
	}
	return object, nil
}

func textOf(object *v1.ConfigMap) []byte {
	if text, ok := object.Data[Key]; ok {
		return []byte(text)
	}
	return nil
}

// changes is how often a text is changed anew because somebody else has changed it meanwhile.
const changes = 5

// Change implements Store.
func (c ConfigMap) Change(ctx context.Context, change func(text []byte) ([]byte, error)) error {
	changed := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(wait.Backoff{Steps: changes}, changed, func() error { return c.changeOnce(ctx, change) })
}

func (c ConfigMap) changeOnce(ctx context.Context, change func(text []byte) ([]byte, error)) error {
	object, err := c.get(ctx)
	if err != nil {
		return err
	}
	exists := object != nil
	if !exists {
		object = &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	}
	text, err := change(textOf(object))
	if err != nil {
		return err
	}
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	object.Data[Key] = string(text)
	maps := c.Client.CoreV1().ConfigMaps(c.Namespace)
	if exists {
		_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		return c.explained("update", err)
	}
	_, err = maps.Create(ctx, object, metav1.CreateOptions{})
	return c.explained("create", err)
}

// explained adds the remedy to an error.
func (c ConfigMap) explained(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s: a role must allow the verb %s: %w", c, verb, err)
	}
	return fmt.Errorf("%s: %s: %w", c, verb, err)
}
