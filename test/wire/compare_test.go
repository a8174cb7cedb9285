// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wire

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"purerdma/internal/cmdtrace"
)

// group collects the distinct forms of each command of a program.
func group(all []*cmdtrace.Command) map[string][]form {
	m := make(map[string][]form)
	for _, command := range all {
		c := recorded{command}
		if c.Device == "mmap" {
			continue // sizes of queues, which are part of other commands
		}
		if c.Errno != 0 && c.Device != "rdma_cm" {
			continue // a probe for a command of the kernel
		}
		k, f := c.key(), c.form()
		if !slices.ContainsFunc(m[k], func(o form) bool { return maps.Equal(o, f) }) {
			m[k] = append(m[k], f)
		}
	}
	return m
}

// compare compares the commands of the Go program with the commands of the C program. Each of them
// must equal one of the C program's, except for explained differences. It returns the compared
// commands and the unexplained differences.
func compare(program string, theirs, ours map[string][]form) (compared, onlyOurs, differences []string) {
	for _, key := range slices.Sorted(maps.Keys(ours)) {
		c := theirs[key]
		if len(c) == 0 {
			onlyOurs = append(onlyOurs, key)
			continue
		}
		compared = append(compared, key)
		for _, f := range ours[key] {
			best := []string(nil)
			for i, o := range c {
				if d := difference(program, key, o, f); i == 0 || len(d) < len(best) {
					best = d
				}
			}
			differences = append(differences, best...)
		}
	}
	return compared, onlyOurs, differences
}

// difference returns the fields in which a command of the C program and one of the Go program
// differ, without explained differences.
func difference(program, key string, c, ours form) []string {
	fields := map[string]bool{}
	for k := range c {
		fields[k] = true
	}
	for k := range ours {
		fields[k] = true
	}
	var out []string
	for k := range fields {
		cv, ov := c.value(k), ours.value(k)
		if cv == ov || isExplained(program, key, k, cv, ov) {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %s: C has %s, ours %s", key, k, cv, ov))
	}
	sort.Strings(out)
	return out
}

// value returns a field, or "absent".
func (f form) value(name string) string {
	if v, ok := f[name]; ok {
		return v
	}
	return "absent"
}

// explanation describes an intended difference between rdma-core and this project. An empty
// field matches any value.
type explanation struct {
	program string
	key     string // suffix of the command's name.
	field   string // name, or a prefix with a star.
	c, ours string // the values, "absent" for a missing field
	why     string
}

func isExplained(program, key, field, c, ours string) bool {
	return slices.ContainsFunc(explained, func(e explanation) bool {
		begin, isBegin := strings.CutSuffix(e.field, "*")
		return (e.program == "" || e.program == program) && strings.HasSuffix(key, e.key) &&
			(e.field == field || isBegin && strings.HasPrefix(field, begin)) &&
			(e.c == "" || e.c == c) && (e.ours == "" || e.ours == ours)
	})
}
