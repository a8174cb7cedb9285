// SPDX-License-Identifier: Apache-2.0

package hwcheck

import "testing"

// TestCharged parses the charges of a control group.
func TestCharged(t *testing.T) {
	const text = "mlx5_1 hca_handle=9 hca_object=99\nmlx5_0 hca_handle=2 hca_object=2000\n"
	for _, tc := range []struct {
		device           string
		handles, objects int
	}{{"mlx5_0", 2, 2000}, {"mlx5_1", 9, 99}, {"mlx5", 0, 0}, {"rxe0", 0, 0}} {
		if h, o := charged(text, tc.device); h != tc.handles || o != tc.objects {
			t.Errorf("charged(%s) = %d, %d, want %d, %d", tc.device, h, o, tc.handles, tc.objects)
		}
	}
}
