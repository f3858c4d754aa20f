"""What a run is and lives through."""
