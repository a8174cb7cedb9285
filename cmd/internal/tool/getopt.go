// SPDX-License-Identifier: Apache-2.0

package tool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"purerdma/cm"
)

// Flag is one flag of a command line.
type Flag struct {
	Name  byte
	Value string // "" for a flag without a value
}

// FlagError reports an unknown flag, or a flag without its value.
type FlagError struct {
	Name    byte
	Missing bool // the value is missing
}

// Error returns the message of getopt(3).
func (e *FlagError) Error() string {
	if e.Missing {
		return fmt.Sprintf("option requires an argument -- '%c'", e.Name)
	}
	return fmt.Sprintf("invalid option -- '%c'", e.Name)
}

// Getopt parses a command line like getopt(3) of the C library. spec lists the flags, with a
// colon after each flag that takes a value. Flags may be joined (-svV), and a value may be
// joined to its flag (-C10). Arguments after "--" are not flags. rest contains the arguments
// that are not flags.
//
// Parsing ends at the first bad flag. The error is then a *FlagError, and flags contains the
// preceding flags.
func Getopt(spec string, args []string) (flags []Flag, rest []string, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			return flags, append(rest, args...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		for i := 1; i < len(arg); i++ {
			f := Flag{Name: arg[i]}
			at := strings.IndexByte(spec, f.Name)
			switch {
			case at < 0 || f.Name == ':':
				return flags, rest, &FlagError{Name: f.Name}
			case at+1 < len(spec) && spec[at+1] == ':':
				switch {
				case i+1 < len(arg):
					f.Value = arg[i+1:]
				case len(args) > 0:
					f.Value, args = args[0], args[1:]
				default:
					return flags, rest, &FlagError{Name: f.Name, Missing: true}
				}
				i = len(arg)
			}
			flags = append(flags, f)
		}
	}
	return flags, rest, nil
}

// ErrRange reports a number outside of a flag's range.
var ErrRange = errors.New("out of range")

// Number parses a decimal number between lo and hi. Unlike atoi(3) it rejects trailing
// characters.
func Number(s string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && (n < lo || n > hi) {
		err = ErrRange
	}
	return n, err
}

// Octet parses a number of 8 bits that may be hexadecimal or octal, like strtoul(3) with base
// 0.
func Octet(s string) (uint8, error) {
	n, err := strconv.ParseUint(s, 0, 8)
	return uint8(n), err
}

// Int calls Number on the flag's value. Its error contains the flag and its range.
func (f Flag) Int(lo, hi int) (int, error) {
	n, err := Number(f.Value, lo, hi)
	if err != nil {
		return 0, fmt.Errorf("-%c %s: want a number from %d to %d", f.Name, f.Value, lo, hi)
	}
	return n, nil
}

// Octet calls the function Octet on the flag's value.
func (f Flag) Octet() (uint8, error) {
	n, err := Octet(f.Value)
	if err != nil {
		return 0, fmt.Errorf("-%c %s: want a number from 0 to 255", f.Name, f.Value)
	}
	return n, nil
}

// PortSpace parses a port space by its number, which may be hexadecimal.
func PortSpace(f Flag) (cm.PortSpace, error) {
	n, err := strconv.ParseUint(f.Value, 0, 16)
	if err != nil {
		return 0, fmt.Errorf("-%c %s: want the number of a port space", f.Name, f.Value)
	}
	return cm.PortSpace(n), nil
}
