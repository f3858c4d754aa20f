"""The laboratory: credit against true advantages, criticality, habits, and reproductions of the papers."""
