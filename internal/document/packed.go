package document

import (
	"bufio"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Packed holds items in a small part of the memory that they take decoded, as a dump may have a million: encoded and compressed.
// The zero value is empty.
type Packed struct {
	types    []packedType
	number   int
	pieces   [][]byte // what is written
	buffered *bufio.Writer
	writer   *flate.Writer
	buffer   []byte
}

// packedType is what items of one kind have in common: their kind, and what their objects say of it.
type packedType struct{ of, object metav1.TypeMeta }

// kinded are objects that say of what kind they are.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// coded are the types with an encoding that is faster than JSON.
type coded interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// pieceSize is how much is written at a time, in bytes.
const pieceSize = 64 << 10

// Write implements io.Writer: it takes a piece.
func (p *Packed) Write(piece []byte) (int, error) {
	p.pieces = append(p.pieces, bytes.Clone(piece))
	return len(piece), nil
}

// Add adds an item of a supported kind.
func (p *Packed) Add(item Item) error {
	if p.writer == nil {
		p.buffered = bufio.NewWriterSize(p, pieceSize)
		p.writer, _ = flate.NewWriter(p.buffered, flate.BestSpeed) // it knows the level
	}
	kind := packedType{of: metav1.TypeMeta{APIVersion: item.APIVersion, Kind: item.Kind}}
	kind.object.APIVersion, kind.object.Kind = item.Object.(kinded).GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	at := slices.Index(p.types, kind)
	if at < 0 {
		at, p.types = len(p.types), append(p.types, kind)
	}
	var text []byte
	var err error
	if object, ok := item.Object.(coded); ok {
		size := object.Size()
		p.buffer = slices.Grow(p.buffer[:0], size)
		text = p.buffer[:size]
		_, err = object.MarshalToSizedBuffer(text)
	} else {
		text, err = json.Marshal(item.Object)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", item.Kind, item.Name, err)
	}
	head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(at)), uint64(len(text)))
	_, _ = p.writer.Write(head) // Write returns no error
	_, _ = p.writer.Write(text)
	p.number++
	return nil
}

// All returns the items in their order, those of wanted kinds if wanted is not nil. Each time they are others.
func (p *Packed) All(wanted func(kind string) bool) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		if p.number == 0 {
			return
		}
		_, _ = p.writer.Flush(), p.buffered.Flush()
		readers := make([]io.Reader, len(p.pieces))
		for i, piece := range p.pieces {
			readers[i] = bytes.NewReader(piece)
		}
		in := bufio.NewReader(flate.NewReader(bufio.NewReaderSize(io.MultiReader(readers...), pieceSize)))
		var buffer []byte
		for range p.number {
			item, err := p.next(in, wanted, &buffer)
			if err == nil && item.Object == nil {
				continue
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// next reads an item; its object is nil if it is not wanted.
func (p *Packed) next(in *bufio.Reader, wanted func(kind string) bool, buffer *[]byte) (item Item, err error) {
	at, err := binary.ReadUvarint(in)
	if err != nil {
		return item, err
	}
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return item, err
	}
	kind := p.types[at]
	if wanted != nil && !wanted(kind.of.Kind) {
		_, err = in.Discard(int(size))
		return item, err
	}
	text := slices.Grow((*buffer)[:0], int(size))[:size]
	*buffer = text
	if _, err := io.ReadFull(in, text); err != nil {
		return item, err
	}
	object := supported[kind.of.APIVersion].new(kind.of.Kind)
	if o, ok := object.(coded); ok {
		err = o.Unmarshal(text)
	} else {
		err = json.Unmarshal(text, object)
	}
	object.(kinded).GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(kind.object.APIVersion, kind.object.Kind))
	meta := object.(metav1.Object)
	return Item{kind.of.APIVersion, kind.of.Kind, meta.GetNamespace(), meta.GetName(), object}, err
}
