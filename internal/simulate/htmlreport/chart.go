package htmlreport

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The library supports only literal colours. So everything is drawn in a colour that represents its
// role, and these are replaced by the variables that the page's style defines for the reader's
// theme.
const (
	roleInk   = 1
	roleGrid  = 2
	roleEdge  = 3
	roleLine  = 4
	roleFault = 5
	roleStrip = 6
	roleLook  = 16 // and those that follow
)

// paints are how the page paints what has a role.
var paints = map[int64]string{
	roleInk: "var(--ink)", roleGrid: "var(--grid)", roleEdge: "var(--edge)", roleLine: "var(--line)", roleFault: "url(#fault)",
	roleStrip: "var(--fault)",
}

// looks is the number of patterns; the last one is for the rest.
const looks = 9

func role(n int) color.Color { return color.RGBA{B: uint8(n), A: 255} }

var (
	styles = regexp.MustCompile(`style="[^"]*"`)
	roles  = regexp.MustCompile(`(fill|stroke):#0000([0-9A-F]{2})`)
	fonts  = regexp.MustCompile(`font-family:[^;]*;font-variant:[^;]*;font-weight:[^;]*;font-style:[^;]*;`)
)

// restyle replaces the colours of a drawing by those of the page. Text cannot be mistaken for a
// style, because its quotation marks are escaped.
func restyle(svg string) string {
	return styles.ReplaceAllStringFunc(svg, func(style string) string {
		return roles.ReplaceAllStringFunc(fonts.ReplaceAllString(style, ""), func(paint string) string {
			at := strings.LastIndex(paint, "#")
			n, _ := strconv.ParseInt(paint[at+5:], 16, 16)
			return paint[:at] + cmp.Or(paints[n], fmt.Sprintf("url(#look%d)", n-roleLook))
		})
	})
}

// band is the time span of a fault.
type band struct {
	label    string
	from, to time.Duration
}

// drawing is one chart: bands of faults, layers on top of each other, and dashed
// lines that are not stacked. Their unit is for its description.
type drawing struct {
	width, height float64
	end           time.Duration
	top           float64 // of the vertical axis
	fractions     bool    // values are not integers
	layers        []layer
	lines         []layer
	bands         []band
	unit          string
}

// resolution is the maximum number of moments of a chart.
const resolution = 400

func (d *drawing) highest() float64 {
	value := 0.0
	for _, at := range instants(append(d.layers, d.lines...)) {
		total := stacked(d.layers, at)
		for i := range d.lines {
			total = max(total, d.lines[i].at(at))
		}
		value = max(value, total)
	}
	return value
}

// draw returns the inside of an SVG element of the drawing's width and height.
func (d *drawing) draw() (template.HTML, error) {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, d.end.Seconds(), 0, d.top
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Label.Color, axis.Tick.Color = role(roleEdge), role(roleInk), role(roleEdge)
		axis.Tick.Label.Font = sans(11)
		axis.LineStyle.Width, axis.Tick.LineStyle.Width, axis.Padding = 1, 1, 0
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks(timeTicks(d.end)), plot.ConstantTicks(valueTicks(d.top, d.fractions))
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	grid.Horizontal = draw.LineStyle{Color: role(roleGrid), Width: 0.7}
	p.Add(grid)
	for _, add := range []func(*plot.Plot) error{d.faults, d.stack, d.faultNames} {
		if err := add(p); err != nil {
			return "", err
		}
	}
	// The extent is fixed here, because each plotter has widened it.
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, d.end.Seconds(), 0, d.top
	canvas := vgsvg.New(vg.Length(d.width), vg.Length(d.height))
	p.Draw(draw.Crop(draw.New(canvas), 2, -16, 2, -4)) // fonts differ in width
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	svg := out.String()
	svg = svg[strings.Index(svg, "<g "):strings.LastIndex(svg, "</svg>")]
	return template.HTML(restyle(svg)), nil // made by the library, which escapes text
}

func sans(size float64) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}
}

// stack adds the layers, first the sum of all and then the lower ones on top of it, and then the
// lines.
func (d *drawing) stack(p *plot.Plot) error {
	at := thin(instants(append(d.layers, d.lines...)), d.layers, resolution)
	heights := make([]plotter.XYs, len(d.layers))
	below := make([]float64, len(at))
	for i := range d.layers {
		for j, t := range at {
			below[j] += d.layers[i].at(t)
		}
		heights[i] = d.steps(at, func(j int) float64 { return below[j] })
	}
	for i := len(heights) - 1; i >= 0; i-- {
		line, err := plotter.NewLine(heights[i])
		if err != nil {
			return err
		}
		line.StepStyle, line.FillColor = plotter.PostStep, role(roleLook+d.layers[i].look)
		line.LineStyle = draw.LineStyle{Color: role(roleEdge), Width: 0.8}
		p.Add(line)
	}
	for i := range d.lines {
		line, err := plotter.NewLine(d.steps(at, func(j int) float64 { return d.lines[i].at(at[j]) }))
		if err != nil {
			return err
		}
		line.StepStyle = plotter.PostStep
		line.LineStyle = draw.LineStyle{Color: role(roleLine), Width: 1.6, Dashes: []vg.Length{5, 3}}
		p.Add(line)
	}
	return d.names(p)
}

func (d *drawing) steps(at []time.Duration, value func(int) float64) plotter.XYs {
	xys := make(plotter.XYs, len(at), len(at)+1)
	for j, t := range at {
		xys[j] = plotter.XY{X: t.Seconds(), Y: value(j)}
	}
	return append(xys, plotter.XY{X: d.end.Seconds(), Y: value(len(at) - 1)})
}

// names writes the layers' names beside them, if there is room.
func (d *drawing) names(p *plot.Plot) error {
	if len(d.layers) < 2 {
		return nil
	}
	var labels plotter.XYLabels
	base, free := 0.0, 0.0
	room := d.top * 14 / d.height // of a line of text
	for i := range d.layers {
		l := &d.layers[i]
		middle := base + l.last()/2
		base += l.last()
		if l.last() == 0 || middle < free {
			continue
		}
		free = middle + room
		labels.XYs = append(labels.XYs, plotter.XY{X: d.end.Seconds(), Y: middle})
		labels.Labels = append(labels.Labels, shorten(l.name, 16))
	}
	if len(labels.XYs) == 0 {
		return nil
	}
	return annotate(p, labels, vg.Point{X: 5}, text.YCenter)
}

func annotate(p *plot.Plot, labels plotter.XYLabels, offset vg.Point, align text.YAlignment) error {
	drawn, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for i := range drawn.TextStyle {
		style := &drawn.TextStyle[i]
		style.Font, style.Color, style.YAlign = sans(11), role(roleInk), align
	}
	drawn.Offset = offset
	p.Add(drawn)
	return nil
}

// faults adds a hatched band for each fault, behind everything.
func (d *drawing) faults(p *plot.Plot) error {
	for _, b := range d.bands {
		if err := d.band(p, b, 0, roleFault); err != nil {
			return err
		}
	}
	return nil
}

// faultNames adds a strip at the top and a number for each fault, in front of
// everything.
func (d *drawing) faultNames(p *plot.Plot) error {
	var labels plotter.XYLabels
	taken := map[time.Duration]float64{}
	for _, b := range d.bands {
		if b.from > d.end {
			continue
		}
		if err := d.band(p, b, d.top*(1-3/d.height), roleStrip); err != nil {
			return err
		}
		if taken[b.from]++; taken[b.from] < 4 {
			labels.XYs = append(labels.XYs, plotter.XY{X: b.from.Seconds(), Y: d.top * (1 - (taken[b.from]-1)*16/d.height)})
			labels.Labels = append(labels.Labels, b.label)
		}
	}
	if len(labels.XYs) == 0 {
		return nil
	}
	return annotate(p, labels, vg.Point{X: 3, Y: -6}, text.YTop)
}

// band paints the time of a fault from a height up to the top.
func (d *drawing) band(p *plot.Plot, b band, bottom float64, paint int) error {
	if b.from > d.end {
		return nil
	}
	from := b.from.Seconds()
	to := max(min(b.to, d.end).Seconds(), from+d.end.Seconds()/300) // a short one stays visible
	polygon, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: bottom}, {X: to, Y: bottom}, {X: to, Y: d.top}, {X: from, Y: d.top}})
	if err != nil {
		return err
	}
	polygon.Color, polygon.LineStyle.Width = role(paint), 0
	p.Add(polygon)
	return nil
}

// shorten truncates names so that they leave room for the chart and stay on one line.
func shorten(name string, most int) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}

// timeTicks are at most nine round times from the start to the end.
func timeTicks(end time.Duration) []plot.Tick {
	step := 24 * time.Hour
	for _, d := range []time.Duration{
		time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if end/d <= 8 {
			step = d
			break
		}
	}
	for end/step > 8 {
		step *= 2
	}
	var ticks []plot.Tick
	for t := time.Duration(0); t <= end; t += step {
		ticks = append(ticks, plot.Tick{Value: t.Seconds(), Label: short(t)})
	}
	return ticks
}

// short formats a time without units that are zero.
func short(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// axisEnd returns the round number at or above a value at which an axis ends, and the distance of
// its ticks.
func axisEnd(value float64, fractions bool) (top, step float64) {
	if value <= 0 {
		return 1, 1
	}
	step = math.Pow(10, math.Floor(math.Log10(value/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if value/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	if !fractions {
		step = max(1, step)
	}
	return math.Ceil(value/step-1e-9) * step, step
}

func valueTicks(top float64, fractions bool) []plot.Tick {
	_, step := axisEnd(top, fractions)
	var ticks []plot.Tick
	for i := 0; float64(i)*step <= top+step/2; i++ {
		value := float64(i) * step
		ticks = append(ticks, plot.Tick{Value: value, Label: number(value)})
	}
	return ticks
}

// number formats a value with the digits that it needs.
func number(value float64) string {
	return strconv.FormatFloat(math.Round(value*1e6)/1e6, 'f', -1, 64)
}
