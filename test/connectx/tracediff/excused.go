// SPDX-License-Identifier: Apache-2.0

package tracediff

import "regexp"

// Excuse is a difference that is right.
type Excuse struct {
	// What is what of a line may differ; it becomes Instead, in which $1 is the
	// first group. A line that becomes "" is left out.
	What    *regexp.Regexp
	Instead string
	Why     string
}

// Excused is what may differ between libmlx5 and provider/mlx5.
var Excused = []Excuse{
	{regexp.MustCompile(`(?:LogPageSize|PageOffset) \d+, |, (?:LogPageSize|PageOffset) \d+`), "", "mlx5_ib describes the memory of a queue by the largest pages in which it happens to lie"},
}

// excuse returns a line without what may differ.
func excuse(line string) string {
	for _, e := range Excused {
		line = e.What.ReplaceAllString(line, e.Instead)
	}
	return line
}
