// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"fmt"
	"strings"
)

// LongFlag is a flag that also has a long name, such as "--port" for -p.
type LongFlag struct {
	Name byte
	Long string
	Arg  bool // whether it takes a value
}

// LongFlagError reports an unknown long flag, or one with an unexpected or missing value.
type LongFlagError struct {
	Name   string // as given, without value
	Reason string // the message of getopt_long(3), with %s for the name
}

// Error returns the message of getopt_long(3).
func (e *LongFlagError) Error() string { return fmt.Sprintf(e.Reason, "'--"+e.Name+"'") }

// GetoptLong is like Getopt with long flags: "--port=1", "--port 1", and any unambiguous prefix
// of a name. The error is a *FlagError or a *LongFlagError.
func GetoptLong(all []LongFlag, args []string) (flags []Flag, rest []string, err error) {
	var spec strings.Builder
	for _, f := range all {
		spec.WriteByte(f.Name)
		if f.Arg {
			spec.WriteByte(':')
		}
	}
	// Replace long flags by short ones, up to a "--" or the first bad flag.
	for len(args) > 0 {
		arg := args[0]
		long, isLong := strings.CutPrefix(arg, "--")
		if !isLong || long == "" {
			n := 1
			if arg == "--" {
				n = len(args)
			}
			f, r, err := Getopt(spec.String(), args[:n])
			if e, ok := err.(*FlagError); ok && e.Missing && len(args) > 1 {
				n = 2 // the value is the next argument
				f, r, err = Getopt(spec.String(), args[:n])
			}
			flags, rest = append(flags, f...), append(rest, r...)
			if err != nil {
				return flags, rest, err
			}
			args = args[n:]
			continue
		}
		args = args[1:]
		name, value, hasValue := strings.Cut(long, "=")
		f, err := findLong(all, name)
		switch {
		case err != nil:
			return flags, rest, err
		case hasValue && !f.Arg:
			return flags, rest, &LongFlagError{f.Long, "option %s doesn't allow an argument"}
		case f.Arg && !hasValue && len(args) == 0:
			return flags, rest, &LongFlagError{f.Long, "option %s requires an argument"}
		case f.Arg && !hasValue:
			value, args = args[0], args[1:]
		}
		flags = append(flags, Flag{Name: f.Name, Value: value})
	}
	return flags, rest, nil
}

// findLong returns the flag with a name, or the only flag whose name has it as a prefix.
func findLong(all []LongFlag, name string) (LongFlag, error) {
	var found []LongFlag
	for _, f := range all {
		if f.Long == name {
			return f, nil
		}
		if f.Long != "" && strings.HasPrefix(f.Long, name) {
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return LongFlag{}, &LongFlagError{name, "unrecognized option %s"}
	case 1:
		return found[0], nil
	}
	e := &LongFlagError{name, "option %s is ambiguous; possibilities:"}
	for _, f := range found {
		e.Reason += " '--" + f.Long + "'"
	}
	return LongFlag{}, e
}
