package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A picture shows a part of the HTML report of a run.
type picture struct {
	file          string
	arguments     string // of evenkeel
	from, to      string // the part begins and ends before these; without from with the page
	width, height int
}

var pictures = []picture{
	{"docs/images/report.png", "simulate zone-outage", "", `<section id="s1-pending"`, 1120, 725},
	{
		"docs/images/compared.png", "simulate -f configs/scenarios/real-cluster.yaml --compare autoscaler=stock,linked,sidecar",
		`<section id="s1-nodes"`, `<section id="s1-unevenness"`, 1240, 840,
	},
}

// TestDocumentedPictures: the pictures of docs/images, all of them, show what their runs give now. What they show is
// compared by a sum in the file, and not by pixels, which differ between releases of a browser. -update has Chromium take
// those anew that are outdated.
func TestDocumentedPictures(t *testing.T) {
	inRoot(t)
	names, err := filepath.Glob("docs/images/*")
	if err != nil || len(names) != len(pictures) {
		t.Errorf("%q: a picture that no run gives", names)
	}
	for _, p := range pictures {
		t.Run(filepath.Base(p.file), func(t *testing.T) {
			head, part := p.shown(t)
			sum := sha256.Sum256([]byte(part))
			want := "evenkeel\x00" + hex.EncodeToString(sum[:])
			text, err := os.ReadFile(p.file)
			switch {
			case err == nil && slices.Contains(textsOf(text), want):
			case *update:
				text = withText(t, p.photograph(t, head+part), want)
				if err := os.WriteFile(p.file, text, 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s shows another run (%v): go test ./cmd/evenkeel -run DocumentedPictures -update", p.file, err)
			}
		})
	}
}

// shown returns the head of the report of a run, and the part of it that the picture shows.
func (p picture) shown(t *testing.T) (head, part string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.html")
	command := exec.CommandContext(t.Context(), "evenkeel", append(strings.Fields(p.arguments), "--report", report)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("evenkeel %s: %v\n%s", p.arguments, err, out)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	head, part, _ = strings.Cut(string(text), "<main")
	part, _, found := strings.Cut("<main"+part, p.to)
	if p.from != "" && found {
		_, part, found = strings.Cut(part, p.from)
		part = "<main>" + p.from + part
	}
	if !found {
		t.Fatalf("the report of evenkeel %s has no %s and %s", p.arguments, p.from, p.to)
	}
	return head, part
}

// photograph has Chromium take a picture of a page in the light theme.
func (p picture) photograph(t *testing.T, text string) []byte {
	t.Helper()
	folder := t.TempDir()
	page, shot := filepath.Join(folder, "page.html"), filepath.Join(folder, "shot.png")
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--no-first-run", "--user-data-dir="+folder, "--blink-settings=preferredColorScheme=1",
		fmt.Sprintf("--window-size=%d,%d", p.width, p.height), "--screenshot="+shot, "file://"+page).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.ReadFile(shot)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, paletted(shown)); err != nil {
		t.Fatal(err)
	}
	return small.Bytes()
}

// paletted is a picture in its most frequent colours, which makes the file a fraction of the size.
func paletted(from image.Image) image.Image {
	pixels := map[color.RGBA]int{}
	bounds := from.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			pixels[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(pixels), func(a, b color.RGBA) int {
		return cmp.Or(pixels[b]-pixels[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range frequent[:min(64, len(frequent))] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(bounds, palette)
	draw.Draw(to, bounds, from, bounds.Min, draw.Src)
	return to
}

const (
	pngHeader = 8 + 25 // the signature, and the chunk that comes first
	pngFrame  = 12     // what a chunk has beside its data: length, type, checksum
)

// withText returns a PNG file with one more text, a name and a value with a zero byte between them.
func withText(t *testing.T, file []byte, text string) []byte {
	t.Helper()
	if len(file) < pngHeader {
		t.Fatal("not a PNG file")
	}
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), "tEXt"+text...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return slices.Concat(file[:pngHeader], chunk, file[pngHeader:])
}

// textsOf returns the texts of a PNG file.
func textsOf(file []byte) (texts []string) {
	for at := 8; at+pngFrame <= len(file); {
		data := int(binary.BigEndian.Uint32(file[at:]))
		if at+pngFrame+data > len(file) {
			return texts
		}
		if string(file[at+4:at+8]) == "tEXt" {
			texts = append(texts, string(file[at+8:at+8+data]))
		}
		at += pngFrame + data
	}
	return texts
}
