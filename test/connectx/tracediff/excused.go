// SPDX-License-Identifier: Apache-2.0

package tracediff

import "regexp"

// Excuse is an expected difference.
type Excuse struct {
	// Pattern matches the part of a line that may differ. It is replaced by Instead, in which $1
	// is the first group. A line that becomes "" is omitted.
	Pattern *regexp.Regexp
	Instead string
	Why     string
}

// Excused lists the expected differences between libmlx5 and provider/mlx5.
var Excused = []Excuse{
	{regexp.MustCompile(`(?:LogPageSize|PageOffset) \d+, |, (?:LogPageSize|PageOffset) \d+`), "", "mlx5_ib describes the memory of a queue by the largest pages in which it happens to lie"},
}

// excuse removes expected differences from a line.
func excuse(line string) string {
	for _, e := range Excused {
		line = e.Pattern.ReplaceAllString(line, e.Instead)
	}
	return line
}
