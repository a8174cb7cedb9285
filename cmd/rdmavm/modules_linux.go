// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// parseModules splits the value of -modules into modules. A word with "=" is a parameter of the
// module before it, other words are modules.
func parseModules(s string) ([]string, error) {
	var modules []string
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		switch {
		case !strings.Contains(w, "="):
			modules = append(modules, w)
		case len(modules) == 0:
			return nil, fmt.Errorf("parameter %q without a module before it", w)
		default:
			modules[len(modules)-1] += " " + w
		}
	}
	return modules, nil
}
