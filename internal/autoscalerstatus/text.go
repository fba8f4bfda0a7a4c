package autoscalerstatus

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// counted are the numbers in a condition of the text, such as ready=3.
var counted = regexp.MustCompile(`(\w+)=([^\s(),]*)`)

// parseText reads the text of 1.29 and before: a heading with the time, conditions of the whole, and below
// NodeGroups: a Name with its conditions for each group. A condition is a line with its state and its
// numbers, and below it its times.
func parseText(data string) (*Status, error) {
	heading, rest, _ := strings.Cut(strings.TrimPrefix(data, textPrefix), "\n")
	at, err := ParseTime(strings.TrimSuffix(heading, ":"))
	if err != nil {
		return nil, fmt.Errorf("time: %w", err)
	}
	whole, groups, _ := strings.Cut(rest, "\nNodeGroups:\n")
	s := &Status{Time: at, Running: strings.HasPrefix(whole, "Cluster-wide:")}
	if !s.Running {
		s.Message = strings.TrimSpace(whole)
	}
	condition := ""
	for line := range strings.Lines(groups) {
		key, value, found := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case !found:
			continue
		case key == "Name":
			s.Groups = append(s.Groups, Group{Name: value})
			condition = ""
			continue
		case len(s.Groups) == 0:
			continue
		}
		if key != "LastProbeTime" && key != "LastTransitionTime" {
			condition = key
		}
		group := &s.Groups[len(s.Groups)-1]
		if err := group.read(condition, key, value); err != nil {
			return nil, fmt.Errorf("group %q: %s: %w", group.Name, key, err)
		}
	}
	return s, nil
}

// read takes a line of a condition.
func (g *Group) read(condition, key, value string) (err error) {
	state, numbers, _ := strings.Cut(value, " ")
	switch {
	case key == "Health":
		g.Healthy = state == "Healthy"
		return g.count(numbers)
	case key == "ScaleUp":
		g.ScaleUp = ScaleUp(state)
		g.blocked("", "")
	case condition == "ScaleUp" && key == "LastTransitionTime":
		if g.Since, err = ParseTime(value); err != nil {
			return err
		}
		g.blocked("", "")
	}
	return nil
}

// count takes the numbers of the condition Health.
func (g *Group) count(numbers string) error {
	into := map[string]*int{
		"ready": &g.Ready, "unready": &g.Unready, "notStarted": &g.NotStarted, "longUnregistered": &g.LongUnregistered,
		"cloudProviderTarget": &g.Target, "minSize": &g.MinSize, "maxSize": &g.MaxSize,
	}
	for _, match := range counted.FindAllStringSubmatch(numbers, -1) {
		field, known := into[match[1]]
		if !known {
			continue
		}
		number, err := strconv.Atoi(match[2])
		if err != nil {
			return fmt.Errorf("%s: %w", match[1], err)
		}
		*field = number
	}
	return nil
}
