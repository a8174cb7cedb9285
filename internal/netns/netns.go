// SPDX-License-Identifier: Apache-2.0

// Package netns runs a function in another network namespace.
package netns

import "strings"

// path returns the file of a namespace. A name without a slash is a name of ip-netns(8).
func path(ns string) string {
	if strings.Contains(ns, "/") {
		return ns
	}
	return "/run/netns/" + ns
}
