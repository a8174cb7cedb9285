// SPDX-License-Identifier: Apache-2.0

package streamtest

// Test is one test. In each iteration it transfers Count times Size bytes in each direction.
type Test struct {
	Name       string
	Size       int
	Count      int
	Iterations int
}

// Sizes returns the sizes of the tests in bytes. all includes the sizes of -S all.
func Sizes(all bool) []int {
	if !all {
		return []int{1 << 6, 1 << 12, 1 << 16, 1 << 20}
	}
	sizes := []int{1 << 6}
	for n := 1 << 7; n <= 1<<22; n *= 2 {
		sizes = append(sizes, n, n+n/2)
	}
	return sizes
}

// Latency returns the test of the latency of a size.
func Latency(size int) Test {
	return Test{Name: name(size) + "_lat", Size: size, Count: 1, Iterations: rounds(size)}
}

// Bandwidth returns the test of the bandwidth of a size.
func Bandwidth(size int) Test {
	return Test{Name: name(size) + "_bw", Size: size, Count: rounds(size), Iterations: 1}
}

// name returns a size for the name of a test. C has room for 4 letters.
func name(size int) string {
	s := sizeText(int64(size))
	return s[:min(len(s), 4)]
}

// rounds returns how often a size is transferred.
func rounds(size int) int {
	switch {
	case size >= 1<<20:
		return 100
	case size >= 1<<16:
		return 1000
	case size >= 1<<10:
		return 10000
	}
	return 100000
}
